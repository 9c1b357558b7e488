// BlockShape: what one rank contributes to, or gets out of, a tensor that is put together or cut along a dimension.
#pragma once

#include <cstddef>
#include <span>

#include "slipring/status.h"

namespace slipring::engine {

/// `outer` rows of `inner` contiguous elements each. Along dimension 0, one row.
struct BlockShape {
  std::size_t outer = 1;
  std::size_t inner = 0;

  std::size_t count() const noexcept { return outer * inner; }

  /// The block of a rank whose tensor of `shape` is concatenated along `dim` (negative: from the end).
  static Result<BlockShape> concatenated(std::span<const std::size_t> shape, int dim);
  /// The block of a rank out of `parts` when a tensor of `shape` is cut along `dim`, which `parts` must divide.
  static Result<BlockShape> cut(std::span<const std::size_t> shape, int dim, int parts);
};

}  // namespace slipring::engine
