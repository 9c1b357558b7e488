// Ring all-gather: each rank passes on to its successor what it got from its predecessor, n-1 steps. Least bytes per link,
// whatever the sizes of the blocks. No hold is needed: nothing is written twice.
// Source: Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in MPICH, IJHPCA 2005.
#include "collectives/algorithms/algorithm.h"

namespace slipring::collectives {

Plan all_gather_ring(const PlanRequest& request) {
  const int n = request.ranks;
  Plan plan(Operation::all_gather, "ring", n, 0, request.lanes, n);
  for (int lane = 0; lane < request.lanes; ++lane) {
    const RingOrder ring(request, lane);
    for (int rank = 0; rank < n; ++rank) {
      if (!request.wants(rank)) continue;
      std::vector<Step>& steps = plan.steps(rank, lane);
      const int place = ring.place_of(rank);
      steps.push_back({.kind = StepKind::copy, .block = rank});
      for (int k = 0; k < n - 1; ++k) {
        const int written_by = static_cast<int>(steps.size()) - 1;
        steps.push_back({.kind = StepKind::send, .from = k == 0 ? Side::input : Side::output, .block = ring.rank_at(place - k),
                         .peer = ring.rank_at(place + 1), .after = k == 0 ? -1 : written_by});
        steps.push_back({.kind = StepKind::receive, .block = ring.rank_at(place - k - 1), .peer = ring.rank_at(place - 1)});
      }
    }
  }
  return plan;
}

}  // namespace slipring::collectives
