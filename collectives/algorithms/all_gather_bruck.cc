// All-gather after Bruck et al. (Efficient Algorithms for All-to-All Communications in Multiport Message-Passing Systems,
// TPDS 1997): in round i a rank gives what it has to the one 2^i before it, and gets as much from the one 2^i after it;
// ceil(log2(n)) rounds for any n. Blocks keep their places, so that no rotation is needed at the end.
#include <algorithm>

#include "collectives/algorithms/algorithm.h"

namespace slipring::collectives {

Plan all_gather_bruck(const PlanRequest& request) {
  const int n = request.ranks;
  Plan plan(Operation::all_gather, "bruck", n, 0, request.lanes, n);
  for (int rank = 0; rank < n; ++rank) {
    if (!request.wants(rank)) continue;
    std::vector<Step> steps = {{.kind = StepKind::copy, .block = rank}};
    std::vector<int> written_by(static_cast<std::size_t>(n), 0);  // step that received a block
    for (int distance = 1; distance < n; distance *= 2) {
      const int many = std::min(distance, n - distance);
      for (int k = 0; k < many; ++k) {
        const int block = (rank + k) % n;
        steps.push_back({.kind = StepKind::send, .from = k == 0 ? Side::input : Side::output, .block = block,
                         .peer = (rank - distance + n) % n, .after = k == 0 ? -1 : written_by[static_cast<std::size_t>(block)]});
      }
      for (int k = 0; k < many; ++k) {
        const int block = (rank + distance + k) % n;
        written_by[static_cast<std::size_t>(block)] = static_cast<int>(steps.size());
        steps.push_back({.kind = StepKind::receive, .block = block, .peer = (rank + distance) % n});
      }
    }
    for (int lane = 0; lane < request.lanes; ++lane) plan.steps(rank, lane) = steps;
  }
  return plan;
}

}  // namespace slipring::collectives
