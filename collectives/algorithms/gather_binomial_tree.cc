// Gather up a binomial tree: a rank passes on to its parent its own block and those of its subtree; log2(n) messages arrive at
// the root one after the other, and inner ranks carry what is not theirs.
// Source: Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in MPICH, IJHPCA 2005.
#include <algorithm>

#include "collectives/algorithms/binomial.h"

namespace slipring::collectives {

Plan gather_binomial_tree(const PlanRequest& request) {
  Plan plan(Operation::gather, "binomial_tree", request.ranks, request.root, request.lanes, request.ranks);
  const BinomialTree tree(request.ranks, request.root);
  for (int rank = 0; rank < request.ranks; ++rank) {
    if (!request.wants(rank)) continue;
    const unsigned number = tree.number_of(rank);
    std::vector<Step> steps;
    if (number == 0) steps.push_back({.kind = StepKind::copy, .block = rank});
    if (number != 0) steps.push_back({.kind = StepKind::send, .from = Side::input, .block = rank, .peer = tree.parent_of(number)});
    std::vector<unsigned> bits = tree.children_bits(number);
    std::reverse(bits.begin(), bits.end());  // the smallest subtree is through first
    for (const unsigned bit : bits)
      for (const int block : tree.subtree(number + bit, bit)) {
        steps.push_back({.kind = StepKind::receive, .block = block, .peer = tree.rank_of(number + bit)});
        if (number != 0)
          steps.push_back({.kind = StepKind::send, .from = Side::output, .block = block, .peer = tree.parent_of(number),
                           .after = static_cast<int>(steps.size()) - 1});
      }
    for (int lane = 0; lane < request.lanes; ++lane) plan.steps(rank, lane) = steps;
  }
  return plan;
}

}  // namespace slipring::collectives
