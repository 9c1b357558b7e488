// Exchange: what one rank gives to the others and takes from them in a direct collective that moves blocks:
// broadcast, gather, scatter, all_gather, all_to_all, and, with a reduction at the receiver, reduce_scatter.
//
// Every rank describes its own part; the parts fit together because all ranks call the same operation. A rank that
// has nothing for another has a block of zero bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/direct/rows.h"
#include "collectives/reduce_kernels.h"

namespace slipring::collectives {

struct Exchange {
  std::span<const Rows> send;  ///< by receiver, the own block included
  std::span<const Rows> recv;  ///< by sender, the own block included; all of send[own].bytes or none
  /// Every receiver gets the same block: it is staged once.
  bool shared = false;
  /// Outputs overwrite inputs beyond the own block, so peers may not read the input itself.
  bool in_place = false;
  /// The blocks of `send` lie at equal distance and have equal shape, so that peers can find theirs in a heap.
  bool uniform = false;
  /// The most bytes that any rank has for any other: the same number on every rank.
  std::size_t largest = 0;
  std::uint64_t fingerprint = 0;
};

/// A reduce_scatter: send[r] is the contribution to rank r's result, recv is not used.
struct ScatterReduction {
  void* out;  ///< packed; identical to the own block of the input, or outside the input
  std::size_t element_bytes;
  ReduceFn kernel;
  int divisor;  ///< see ReduceFn
};

}  // namespace slipring::collectives
