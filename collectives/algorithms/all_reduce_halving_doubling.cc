// Recursive halving, then recursive doubling (Rabenseifner: Optimization of Collective Reduction Operations, ICCS 2004), for any
// number of ranks: with p the largest power of two in n, the first n-p pairs of ranks fold into one each; p ranks halve the
// vector log2(p) times, each ending with one finished block, and exchange what is finished by doubling; then the folded
// ranks get the result. Each block is finished by one rank and copied, so all have the same bits.
// No hold is needed: a finished block contains what this rank sent of it.
#include <bit>
#include <vector>

#include "collectives/algorithms/algorithm.h"

namespace slipring::collectives {
namespace {

class Builder {
 public:
  Builder(int ranks, int rank, std::vector<Step>& steps)
      : p_(static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)))), folded_(ranks - p_), rank_(rank), steps_(steps),
        written_by_(static_cast<std::size_t>(p_), -1) {}

  void build() {
    if (p_ == 1) {
      steps_.push_back({.kind = StepKind::copy, .finish = true});
      return;
    }
    const bool in_pair = rank_ < 2 * folded_;
    if (in_pair && rank_ % 2 == 0) {  // is folded into the next rank
      for (int block = 0; block < p_; ++block) send(block, rank_ + 1);
      for (int block = 0; block < p_; ++block) receive(block, rank_ + 1);
      return;
    }
    if (in_pair)
      for (int block = 0; block < p_; ++block) reduce(block, rank_ - 1, false);
    halve_and_double(in_pair ? rank_ / 2 : rank_ - folded_);
    if (in_pair)
      for (int block = 0; block < p_; ++block) send(block, rank_ - 1);
  }

 private:
  int rank_of(int number) const noexcept { return number < folded_ ? 2 * number + 1 : number + folded_; }

  void send(int block, int peer) {
    const int writer = written_by_[static_cast<std::size_t>(block)];
    steps_.push_back({.kind = StepKind::send, .from = writer < 0 ? Side::input : Side::output, .block = block, .peer = peer,
                      .after = writer});
  }
  void receive(int block, int peer) {
    written_by_[static_cast<std::size_t>(block)] = static_cast<int>(steps_.size());
    steps_.push_back({.kind = StepKind::receive, .block = block, .peer = peer});
  }
  void reduce(int block, int peer, bool finish) {
    int& writer = written_by_[static_cast<std::size_t>(block)];
    const Side from = writer < 0 ? Side::input : Side::output;
    writer = static_cast<int>(steps_.size());
    steps_.push_back({.kind = StepKind::receive_reduce, .from = from, .finish = finish, .block = block, .peer = peer});
  }

  void halve_and_double(int number) {
    for (int half = p_ / 2; half > 0; half /= 2) {
      const int peer = rank_of(number ^ half), first = number / half * half, theirs = first ^ half;
      for (int block = theirs; block < theirs + half; ++block) send(block, peer);
      for (int block = first; block < first + half; ++block) reduce(block, peer, half == 1);
    }
    for (int have = 1; have < p_; have *= 2) {
      const int peer = rank_of(number ^ have), first = number / have * have, theirs = first ^ have;
      for (int block = first; block < first + have; ++block) send(block, peer);
      for (int block = theirs; block < theirs + have; ++block) receive(block, peer);
    }
  }

  const int p_, folded_, rank_;
  std::vector<Step>& steps_;
  std::vector<int> written_by_;  // step that wrote a block last
};

}  // namespace

Plan all_reduce_halving_doubling(const PlanRequest& request) {
  const int p = static_cast<int>(std::bit_floor(static_cast<unsigned>(request.ranks)));
  Plan plan(Operation::all_reduce, "halving_doubling", request.ranks, 0, request.lanes, p);
  for (int rank = 0; rank < request.ranks; ++rank) {
    if (!request.wants(rank)) continue;
    std::vector<Step> steps;
    Builder(request.ranks, rank, steps).build();
    for (int lane = 0; lane < request.lanes; ++lane) plan.steps(rank, lane) = steps;
  }
  return plan;
}

}  // namespace slipring::collectives
