// Ring allreduce. With n ranks a lane has n blocks. The rank at place p of the ring first passes on partial
// sums of blocks p, p-1, ... (reduce-scatter: n-1 steps, after which it owns finished block p+1), then passes
// on finished blocks p+1, p, ... (all-gather: n-1 steps).
//
// Order of reduction: block b starts at place b and grows as x[b+k] op (... op x[b]) along the ring; one rank
// finishes it and all others copy, so every rank has the same bits.
// Source: Patarasuk, Yuan, Bandwidth Optimal All-reduce Algorithms for Clusters of Workstations, JPDC 2009.
// No hold is needed: a finished block can reach a rank only after the partial sum that this rank sent.
#include "collectives/algorithms/algorithm.h"

namespace slipring::collectives {

static void build_rank(const RingOrder& ring, int rank, std::vector<Step>& steps) {
  const int n = ring.size();
  const int place = ring.place_of(rank);
  const int next = ring.rank_at(place + 1);
  const int previous = ring.rank_at(place - 1);
  if (n == 1) {
    steps = {{.kind = StepKind::copy, .finish = true}};
    return;
  }
  steps.reserve(static_cast<std::size_t>(4 * (n - 1)));
  int written_by = -1;  // step that wrote the block which the next send passes on
  const auto send = [&](int block, Side from) {
    steps.push_back(
        {.kind = StepKind::send, .from = from, .block = block, .peer = next, .after = written_by});
    written_by = static_cast<int>(steps.size());
  };
  for (int k = 0; k < n - 1; ++k) {
    send(ring.wrap(place - k), k == 0 ? Side::input : Side::output);
    steps.push_back({.kind = StepKind::receive_reduce,
                     .from = Side::input,
                     .finish = k == n - 2,
                     .block = ring.wrap(place - k - 1),
                     .peer = previous});
  }
  for (int k = 0; k < n - 1; ++k) {
    send(ring.wrap(place + 1 - k), Side::output);
    steps.push_back({.kind = StepKind::receive, .block = ring.wrap(place - k), .peer = previous});
  }
}

Plan all_reduce_ring(const PlanRequest& request) {
  Plan plan(Operation::all_reduce, "ring", request.ranks, 0, request.lanes, request.ranks);
  for (int lane = 0; lane < request.lanes; ++lane) {
    const RingOrder ring(request, lane);
    for (int rank = 0; rank < request.ranks; ++rank) {
      if (request.wants(rank)) build_rank(ring, rank, plan.steps(rank, lane));
    }
  }
  return plan;
}

}  // namespace slipring::collectives
