// Pairwise exchange: in step k every rank sends to the rank k after it and receives from the one k before it. Each byte
// crosses one link, and no rank is the target of two others at the same time.
// Source: Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in MPICH, IJHPCA 2005.
#include "collectives/algorithms/algorithm.h"

namespace slipring::collectives {

Plan all_to_all_pairwise(const PlanRequest& request) {
  const int n = request.ranks;
  Plan plan(Operation::all_to_all, "pairwise", n, 0, request.lanes, n * n);
  for (int rank = 0; rank < n; ++rank) {
    if (!request.wants(rank)) continue;
    std::vector<Step> steps = {{.kind = StepKind::copy, .block = rank * n + rank}};
    for (int k = 1; k < n; ++k) {
      const int to = (rank + k) % n, from = (rank - k + n) % n;
      steps.push_back({.kind = StepKind::send, .from = Side::input, .block = rank * n + to, .peer = to});
      steps.push_back({.kind = StepKind::receive, .block = from * n + rank, .peer = from});
    }
    for (int lane = 0; lane < request.lanes; ++lane) plan.steps(rank, lane) = steps;
  }
  return plan;
}

}  // namespace slipring::collectives
