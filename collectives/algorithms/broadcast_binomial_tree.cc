// Broadcast down a binomial tree. A rank's number counts from the root; its parent is the number without its
// lowest set bit, and its children are reached by setting one bit below that. Children with the largest
// subtree come first.
// Source: Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in MPICH, IJHPCA 2005.
#include <bit>

#include "collectives/algorithms/algorithm.h"

namespace slipring::collectives {

Plan broadcast_binomial_tree(const PlanRequest& request) {
  Plan plan(Operation::broadcast, "binomial_tree", request.ranks, request.root, request.lanes, 1);
  const auto n = static_cast<unsigned>(request.ranks);
  const auto root = static_cast<unsigned>(request.root);
  const auto rank_of = [&](unsigned number) { return static_cast<int>((number + root) % n); };
  for (unsigned number = 0; number < n; ++number) {
    const int rank = rank_of(number);
    if (!request.wants(rank)) continue;
    const bool is_root = number == 0;
    const unsigned lowest = is_root ? std::bit_ceil(n) : number & (~number + 1);
    std::vector<Step> steps;
    if (is_root) {
      steps.push_back({.kind = StepKind::copy});
    } else {
      steps.push_back({.kind = StepKind::receive, .peer = rank_of(number - lowest)});
    }
    for (unsigned bit = lowest / 2; bit > 0; bit /= 2) {
      if (number + bit >= n) continue;
      steps.push_back({.kind = StepKind::send,
                       .from = is_root ? Side::input : Side::output,
                       .peer = rank_of(number + bit),
                       .after = is_root ? -1 : 0});
    }
    for (int lane = 0; lane < request.lanes; ++lane) plan.steps(rank, lane) = steps;
  }
  return plan;
}

}  // namespace slipring::collectives
