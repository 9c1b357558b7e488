// Pairwise reduce-scatter (Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in MPICH, IJHPCA
// 2005): in step k every rank sends the block of the rank k after it straight to that rank. Each byte crosses one link.
#include "collectives/algorithms/algorithm.h"

namespace slipring::collectives {

Plan reduce_scatter_pairwise(const PlanRequest& request) {
  const int n = request.ranks;
  Plan plan(Operation::reduce_scatter, "pairwise", n, 0, request.lanes, n);
  for (int rank = 0; rank < n; ++rank) {
    if (!request.wants(rank)) continue;
    std::vector<Step> steps;
    if (n == 1) steps.push_back({.kind = StepKind::copy, .finish = true});
    for (int k = 1; k < n; ++k) {
      const int to = (rank + k) % n, from = (rank - k + n) % n;
      steps.push_back({.kind = StepKind::send, .from = Side::input, .block = to, .peer = to});
      steps.push_back({.kind = StepKind::receive_reduce, .from = k == 1 ? Side::input : Side::output, .finish = k == n - 1,
                       .block = rank, .peer = from});
    }
    for (int lane = 0; lane < request.lanes; ++lane) plan.steps(rank, lane) = steps;
  }
  return plan;
}

}  // namespace slipring::collectives
