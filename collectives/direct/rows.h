// Rows: a block of a tensor that is cut along any dimension. The block's bytes, counted as if it were packed, lie in
// memory in rows of equal length at equal distance; a block cut along the first dimension is one row.
//
// Plain value. The algorithms count in packed bytes and ask for the pieces of memory that a range of them is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/copy.h"

namespace slipring::collectives {

struct Rows {
  std::byte* base = nullptr;  ///< never written through where the owner says "read"
  std::size_t bytes = 0;      ///< of all rows
  std::size_t row_bytes = 0;  ///< divides bytes
  std::size_t stride = 0;     ///< from row to row

  static Rows packed(const void* base, std::size_t bytes) noexcept {
    return {static_cast<std::byte*>(const_cast<void*>(base)), bytes, bytes, bytes};
  }
  bool is_packed() const noexcept { return row_bytes >= bytes || row_bytes == stride; }

  std::byte* address(std::size_t position) const noexcept {
    return is_packed() ? base + position : base + position / row_bytes * stride + position % row_bytes;
  }
  /// Bytes of memory from the first row to the last, gaps included.
  std::size_t extent() const noexcept { return is_packed() ? bytes : (bytes / row_bytes - 1) * stride + row_bytes; }

  /// Calls piece(memory, bytes, position) for each run of memory of the packed range [first, first + count).
  template <class Piece>
  void for_each(std::size_t first, std::size_t count, Piece&& piece) const {
    if (count == 0) return;
    if (is_packed()) return piece(base + first, count, std::size_t{0});
    std::byte* row = base + first / row_bytes * stride;
    std::size_t in_row = first % row_bytes;
    for (std::size_t done = 0; done < count; row += stride, in_row = 0) {
      const std::size_t now = std::min(row_bytes - in_row, count - done);
      piece(row + in_row, now, done);
      done += now;
    }
  }

  /// packed range -> `to`, memory that another core reads next.
  void hand_over(std::size_t first, std::size_t count, std::byte* to) const {
    for_each(first, count, [to](const std::byte* memory, std::size_t run, std::size_t at) {
      base::copy_handed_over(to + at, memory, run);
    });
  }
  /// `from` -> packed range.
  void fill(std::size_t first, std::size_t count, const std::byte* from) const {
    for_each(first, count, [from](std::byte* memory, std::size_t run, std::size_t at) {
      if (memory != from + at) std::memcpy(memory, from + at, run);
    });
  }
};

/// Copies between two blocks of the same bytes.
inline void copy_rows(const Rows& to, const Rows& from) {
  from.for_each(0, from.bytes, [&to](const std::byte* memory, std::size_t run, std::size_t at) { to.fill(at, run, memory); });
}

}  // namespace slipring::collectives
