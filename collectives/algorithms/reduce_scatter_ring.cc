// Ring reduce-scatter: the first half of the ring all-reduce, turned by one place so that every rank ends with its own
// block. Block b starts behind rank b and grows around the ring; n-1 steps, least bytes per link.
// Source: Patarasuk, Yuan, Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations, JPDC 2009.
#include "collectives/algorithms/algorithm.h"

namespace slipring::collectives {

Plan reduce_scatter_ring(const PlanRequest& request) {
  const int n = request.ranks;
  Plan plan(Operation::reduce_scatter, "ring", n, 0, request.lanes, n);
  for (int lane = 0; lane < request.lanes; ++lane) {
    const RingOrder ring(request, lane);
    for (int rank = 0; rank < n; ++rank) {
      if (!request.wants(rank)) continue;
      std::vector<Step>& steps = plan.steps(rank, lane);
      const int place = ring.place_of(rank);
      if (n == 1) steps.push_back({.kind = StepKind::copy, .finish = true});
      for (int k = 0; k < n - 1; ++k) {
        const int written_by = static_cast<int>(steps.size()) - 1;
        steps.push_back({.kind = StepKind::send, .from = k == 0 ? Side::input : Side::output, .block = ring.rank_at(place - 1 - k),
                         .peer = ring.rank_at(place + 1), .after = k == 0 ? -1 : written_by});
        steps.push_back({.kind = StepKind::receive_reduce, .from = Side::input, .finish = k == n - 2,
                         .block = ring.rank_at(place - 2 - k), .peer = ring.rank_at(place - 1)});
      }
    }
  }
  return plan;
}

}  // namespace slipring::collectives
