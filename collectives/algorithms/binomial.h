// Binomial trees: a rank's number counts from the root; its parent is the number without its lowest set bit, and its
// children are reached by setting one bit below that. The subtree of number v at bit b holds v .. v + b - 1.
#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include "collectives/algorithms/algorithm.h"

namespace slipring::collectives {

class BinomialTree {
 public:
  BinomialTree(int ranks, int root) noexcept : n_(static_cast<unsigned>(ranks)), root_(static_cast<unsigned>(root)) {}

  int rank_of(unsigned number) const noexcept { return static_cast<int>((number + root_) % n_); }
  unsigned number_of(int rank) const noexcept { return (static_cast<unsigned>(rank) + n_ - root_) % n_; }
  /// The bit that leads to the parent; for the root, the one above all.
  static unsigned lowest_bit(unsigned number, unsigned n) noexcept { return number == 0 ? std::bit_ceil(n) : number & (~number + 1); }
  int parent_of(unsigned number) const noexcept { return rank_of(number - lowest_bit(number, n_)); }
  /// Bits of the children, largest subtree first.
  std::vector<unsigned> children_bits(unsigned number) const {
    std::vector<unsigned> bits;
    for (unsigned bit = lowest_bit(number, n_) / 2; bit > 0; bit /= 2)
      if (number + bit < n_) bits.push_back(bit);
    return bits;
  }
  /// Ranks of the subtree that hangs at `number`, which is reached by `bit`.
  std::vector<int> subtree(unsigned number, unsigned bit) const {
    std::vector<int> ranks;
    for (unsigned v = number; v < std::min(number + bit, n_); ++v) ranks.push_back(rank_of(v));
    return ranks;
  }
  unsigned size() const noexcept { return n_; }

 private:
  unsigned n_, root_;
};

}  // namespace slipring::collectives
