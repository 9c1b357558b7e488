// Recursive doubling. With p the largest power of two not above n, the first 2(n-p) ranks pair up: the odd
// one gives its input to the even one and gets the result back at the end. The p ranks left exchange whole
// vectors with the partner whose number differs in bit 0, 1, 2, ...
//
// Order of reduction: both partners combine the lower half first, so all ranks evaluate one tree.
// Holds: a rank overwrites in each round the vector that it sends in that round, and its partner's message
// says nothing about whether that send is out; hence `after` on the receiving side.
// Source: Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in MPICH, IJHPCA 2005.
#include <bit>

#include "collectives/algorithms/algorithm.h"

namespace slipring::collectives {

namespace {

/// Folds n ranks into the p that exchange.
class Folding {
 public:
  explicit Folding(int ranks)
      : exchanging_(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))),
        pairs_(ranks - exchanging_) {}
  int exchanging() const { return exchanging_; }
  bool is_paired(int rank) const { return rank < 2 * pairs_; }
  int number_of(int rank) const { return is_paired(rank) ? rank / 2 : rank - pairs_; }
  int rank_of(int number) const { return number < pairs_ ? 2 * number : number + pairs_; }

 private:
  int exchanging_;
  int pairs_;
};

void build_rank(const Folding& folding, int rank, std::vector<Step>& steps) {
  if (folding.exchanging() == 1 && !folding.is_paired(rank)) {
    steps = {{.kind = StepKind::copy, .finish = true}};
    return;
  }
  if (folding.is_paired(rank) && rank % 2 == 1) {
    steps = {{.kind = StepKind::send, .from = Side::input, .peer = rank - 1},
             {.kind = StepKind::receive, .peer = rank - 1}};
    return;
  }
  Side from = Side::input;
  int written_by = -1;
  if (folding.is_paired(rank)) {
    steps.push_back({.kind = StepKind::receive_reduce, .from = from, .peer = rank + 1});
    from = Side::output;
    written_by = 0;
  }
  for (int bit = 1; bit < folding.exchanging(); bit *= 2) {
    const int number = folding.number_of(rank);
    const int peer = folding.rank_of(number ^ bit);
    steps.push_back({.kind = StepKind::send, .from = from, .peer = peer, .after = written_by});
    steps.push_back({.kind = StepKind::receive_reduce,
                     .from = from,
                     .received_first = (number & bit) != 0,
                     .peer = peer,
                     .after = static_cast<int>(steps.size()) - 1});
    from = Side::output;
    written_by = static_cast<int>(steps.size()) - 1;
  }
  steps.back().finish = true;
  if (folding.is_paired(rank)) {
    steps.push_back({.kind = StepKind::send, .from = Side::output, .peer = rank + 1, .after = written_by});
  }
}

}  // namespace

Plan all_reduce_recursive_doubling(const PlanRequest& request) {
  Plan plan(Operation::all_reduce, "recursive_doubling", request.ranks, 0, request.lanes, 1);
  const Folding folding(request.ranks);
  for (int lane = 0; lane < request.lanes; ++lane) {
    for (int rank = 0; rank < request.ranks; ++rank) {
      if (request.wants(rank)) build_rank(folding, rank, plan.steps(rank, lane));
    }
  }
  return plan;
}

}  // namespace slipring::collectives
