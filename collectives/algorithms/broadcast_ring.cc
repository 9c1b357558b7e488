// Broadcast along a chain that starts at the root: each rank passes a chunk on as soon as it has it. The
// pipeline needs no blocks: the chunks of the one block are its stages. Odd lanes go round the other way.
#include "collectives/algorithms/algorithm.h"

namespace slipring::collectives {

Plan broadcast_ring(const PlanRequest& request) {
  Plan plan(Operation::broadcast, "ring", request.ranks, request.root, request.lanes, 1);
  for (int lane = 0; lane < request.lanes; ++lane) {
    const RingOrder ring(request, lane);
    for (int hops = 0; hops < request.ranks; ++hops) {
      const int place = ring.place_of(request.root) + hops;
      const int rank = ring.rank_at(place);
      if (!request.wants(rank)) continue;
      std::vector<Step>& steps = plan.steps(rank, lane);
      if (hops == 0) {
        steps.push_back({.kind = StepKind::copy});
      } else {
        steps.push_back({.kind = StepKind::receive, .peer = ring.rank_at(place - 1)});
      }
      if (hops < request.ranks - 1) {
        // The root reads its input, whose copy to the output (out of place) is nobody's concern.
        steps.push_back({.kind = StepKind::send,
                         .from = hops == 0 ? Side::input : Side::output,
                         .peer = ring.rank_at(place + 1),
                         .after = hops == 0 ? -1 : 0});
      }
    }
  }
  return plan;
}

}  // namespace slipring::collectives
