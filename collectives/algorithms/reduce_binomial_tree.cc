// Reduce up a binomial tree: a rank takes the partial results of its children, smallest subtree first, and passes its own to
// its parent; log2(n) hops.
// Source: Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in MPICH, IJHPCA 2005.
#include <algorithm>

#include "collectives/algorithms/binomial.h"

namespace slipring::collectives {

Plan reduce_binomial_tree(const PlanRequest& request) {
  Plan plan(Operation::reduce, "binomial_tree", request.ranks, request.root, request.lanes, 1);
  const BinomialTree tree(request.ranks, request.root);
  for (int rank = 0; rank < request.ranks; ++rank) {
    if (!request.wants(rank)) continue;
    const unsigned number = tree.number_of(rank);
    std::vector<unsigned> bits = tree.children_bits(number);
    std::reverse(bits.begin(), bits.end());
    std::vector<Step> steps;
    for (const unsigned bit : bits)
      steps.push_back({.kind = StepKind::receive_reduce, .from = steps.empty() ? Side::input : Side::output,
                       .finish = number == 0 && bit == bits.back(), .peer = tree.rank_of(number + bit)});
    if (number == 0 && steps.empty()) steps.push_back({.kind = StepKind::copy, .finish = true});
    if (number != 0)
      steps.push_back({.kind = StepKind::send, .from = steps.empty() ? Side::input : Side::output, .peer = tree.parent_of(number),
                       .after = static_cast<int>(steps.size()) - 1});
    for (int lane = 0; lane < request.lanes; ++lane) plan.steps(rank, lane) = steps;
  }
  return plan;
}

}  // namespace slipring::collectives
