// Scatter down a binomial tree: a rank gets from its parent its own block and those of its subtree, and passes these on;
// log2(n) hops, the largest subtree first.
// Source: Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in MPICH, IJHPCA 2005.
#include "collectives/algorithms/binomial.h"

namespace slipring::collectives {

Plan scatter_binomial_tree(const PlanRequest& request) {
  Plan plan(Operation::scatter, "binomial_tree", request.ranks, request.root, request.lanes, request.ranks);
  const BinomialTree tree(request.ranks, request.root);
  for (int rank = 0; rank < request.ranks; ++rank) {
    if (!request.wants(rank)) continue;
    const unsigned number = tree.number_of(rank);
    const bool is_root = number == 0;
    std::vector<Step> steps;
    std::vector<int> written_by(static_cast<std::size_t>(request.ranks), -1);
    if (is_root) {
      steps.push_back({.kind = StepKind::copy, .block = rank});
    } else {
      // In the order in which the parent sends: its list for this subtree is the list below of each rank in turn.
      for (const int block : tree.subtree(number, BinomialTree::lowest_bit(number, tree.size()))) {
        written_by[static_cast<std::size_t>(block)] = static_cast<int>(steps.size());
        steps.push_back({.kind = StepKind::receive, .block = block, .peer = tree.parent_of(number)});
      }
    }
    for (const unsigned bit : tree.children_bits(number))
      for (const int block : tree.subtree(number + bit, bit))
        steps.push_back({.kind = StepKind::send, .from = is_root ? Side::input : Side::output, .block = block,
                         .peer = tree.rank_of(number + bit), .after = written_by[static_cast<std::size_t>(block)]});
    for (int lane = 0; lane < request.lanes; ++lane) plan.steps(rank, lane) = steps;
  }
  return plan;
}

}  // namespace slipring::collectives
