// Pipelined chain to the root: partial results pass from rank to rank; each byte crosses each link once, n-1 hops.
#include "collectives/algorithms/algorithm.h"

namespace slipring::collectives {

Plan reduce_ring(const PlanRequest& request) {
  const int n = request.ranks;
  Plan plan(Operation::reduce, "ring", n, request.root, request.lanes, 1);
  for (int lane = 0; lane < request.lanes; ++lane) {
    const RingOrder ring(request, lane);
    const int last = ring.place_of(request.root);
    for (int rank = 0; rank < n; ++rank) {
      if (!request.wants(rank)) continue;
      std::vector<Step>& steps = plan.steps(rank, lane);
      const int place = ring.wrap(ring.place_of(rank) - last);  // the root is 0, the chain begins at 1
      const bool is_root = place == 0, begins = place == 1 || n == 1;
      if (is_root && n == 1) steps.push_back({.kind = StepKind::copy, .finish = true});
      if (!begins || (is_root && n > 1))
        steps.push_back({.kind = StepKind::receive_reduce, .from = Side::input, .finish = is_root, .peer = ring.rank_at(last + place - 1)});
      if (!is_root)
        steps.push_back({.kind = StepKind::send, .from = begins ? Side::input : Side::output, .peer = ring.rank_at(last + place + 1),
                         .after = begins ? -1 : 0});
    }
  }
  return plan;
}

}  // namespace slipring::collectives
