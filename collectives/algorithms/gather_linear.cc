// Every rank sends its block straight to the root: each byte crosses one link, and the root takes n-1 messages.
#include "collectives/algorithms/algorithm.h"

namespace slipring::collectives {

Plan gather_linear(const PlanRequest& request) {
  const int n = request.ranks;
  Plan plan(Operation::gather, "linear", n, request.root, request.lanes, n);
  for (int rank = 0; rank < n; ++rank) {
    if (!request.wants(rank)) continue;
    std::vector<Step> steps;
    if (rank != request.root) {
      steps.push_back({.kind = StepKind::send, .from = Side::input, .block = rank, .peer = request.root});
    } else {
      steps.push_back({.kind = StepKind::copy, .block = rank});
      for (int k = 1; k < n; ++k) steps.push_back({.kind = StepKind::receive, .block = (rank + k) % n, .peer = (rank + k) % n});
    }
    for (int lane = 0; lane < request.lanes; ++lane) plan.steps(rank, lane) = steps;
  }
  return plan;
}

}  // namespace slipring::collectives
