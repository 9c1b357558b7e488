// All-to-all after Bruck et al. (TPDS 1997): in round i every block whose way still has bit i goes 2^i ranks further, through
// ranks that only carry it; ceil(log2(n)) peers per rank instead of n-1, for small blocks.
#include <vector>

#include "collectives/algorithms/algorithm.h"

namespace slipring::collectives {

Plan all_to_all_bruck(const PlanRequest& request) {
  const int n = request.ranks;
  Plan plan(Operation::all_to_all, "bruck", n, 0, request.lanes, n * n);
  for (int rank = 0; rank < n; ++rank) {
    if (!request.wants(rank)) continue;
    std::vector<Step> steps = {{.kind = StepKind::copy, .block = rank * n + rank}};
    std::vector<int> written_by(static_cast<std::size_t>(n) * static_cast<std::size_t>(n), -1);
    for (int bit = 1; bit < n; bit *= 2) {
      const auto block_at = [&](int holder, int way) {  // the block that `holder` has before this round with that way in all
        const int source = ((holder - (way & (bit - 1))) % n + n) % n;
        return source * n + (source + way) % n;
      };
      for (int way = bit; way < n; ++way) {
        if ((way & bit) == 0) continue;
        const int block = block_at(rank, way);
        steps.push_back({.kind = StepKind::send, .from = (way & (bit - 1)) == 0 ? Side::input : Side::output, .block = block,
                         .peer = (rank + bit) % n, .after = written_by[static_cast<std::size_t>(block)]});
      }
      for (int way = bit; way < n; ++way) {
        if ((way & bit) == 0) continue;
        const int from = (rank - bit + n) % n, block = block_at(from, way);
        written_by[static_cast<std::size_t>(block)] = static_cast<int>(steps.size());
        steps.push_back({.kind = StepKind::receive, .block = block, .peer = from});
      }
    }
    for (int lane = 0; lane < request.lanes; ++lane) plan.steps(rank, lane) = steps;
  }
  return plan;
}

}  // namespace slipring::collectives
