#include "engine/block_shape.h"

#include <fmt/ranges.h>

#include "base/status.h"
#include "collectives/fingerprint.h"

namespace slipring::engine {

Result<BlockShape> BlockShape::concatenated(std::span<const std::size_t> shape, int dim) { return cut(shape, dim, 1); }

Result<BlockShape> BlockShape::cut(std::span<const std::size_t> shape, int dim, int parts) {
  const int dims = static_cast<int>(shape.size());
  const int along = dim < 0 ? dim + dims : dim;
  if (along < 0 || along >= dims)
    return base::error(StatusCode::invalid_argument, "dim {} of shape [{}]: it has {} dimensions", dim, fmt::join(shape, ", "), dims);
  BlockShape block{1, 1};
  std::size_t elements = 1;
  bool too_large = false, empty = false;
  for (int i = 0; i < dims; ++i) {
    const std::size_t extent = shape[static_cast<std::size_t>(i)];
    empty = empty || extent == 0;
    too_large = too_large || __builtin_mul_overflow(elements, extent == 0 ? 1 : extent, &elements);
    if (i != along) (i < along ? block.outer : block.inner) *= extent;
  }
  if (too_large || elements >= collectives::Fingerprint::kMaxCount)
    return base::error(StatusCode::invalid_argument, "shape [{}] has {} elements or more; was an extent negative?",
                       fmt::join(shape, ", "), collectives::Fingerprint::kMaxCount);
  const std::size_t extent = shape[static_cast<std::size_t>(along)], n = static_cast<std::size_t>(parts);
  if (extent % n != 0)
    return base::error(StatusCode::invalid_argument, "dim {} of shape [{}] is not a multiple of {} ranks", dim,
                       fmt::join(shape, ", "), parts);
  if (empty) return BlockShape{1, 0};
  block.inner *= extent / n;
  return block;
}

}  // namespace slipring::engine
