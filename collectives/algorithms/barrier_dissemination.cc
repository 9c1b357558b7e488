// Dissemination barrier: in round k each rank sends what it knows to the rank 2^k further and learns what the
// rank 2^k before it knows; after ceil(log2(n)) rounds it knows of all. Knowledge is a real token of one
// element under max, so that the checker proves the barrier by the contents, as it does for any reduction.
// Source: Hensgen, Finkel, Manber, Two Algorithms for Barrier Synchronization, IJPP 1988.
// Each round overwrites the token that it sends, hence the hold.
#include "collectives/algorithms/algorithm.h"

namespace slipring::collectives {

Plan barrier_dissemination(const PlanRequest& request) {
  const int n = request.ranks;
  Plan plan(Operation::barrier, "dissemination", n, 0, request.lanes, 1);
  for (int rank = 0; rank < n; ++rank) {
    if (!request.wants(rank)) continue;
    std::vector<Step> steps;
    if (n == 1) steps.push_back({.kind = StepKind::copy});
    for (int distance = 1; distance < n; distance *= 2) {
      const int sent = static_cast<int>(steps.size());
      const Side from = sent == 0 ? Side::input : Side::output;
      steps.push_back(
          {.kind = StepKind::send, .from = from, .peer = (rank + distance) % n, .after = sent - 1});
      steps.push_back(
          {.kind = StepKind::receive_reduce, .from = from, .peer = (rank + n - distance) % n, .after = sent});
    }
    for (int lane = 0; lane < request.lanes; ++lane) plan.steps(rank, lane) = steps;
  }
  return plan;
}

}  // namespace slipring::collectives
