// What a reduction must yield, computed the plain way, and inputs whose sums and products are exact in every type.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "slipring/float16.h"
#include "slipring/types.h"

namespace slipring::tests {

/// Small integers that differ by rank and element; sums and products of 16 of them stay exact also when each step
/// rounds to bf16, and wrap in unsigned types.
template <class T>
T input_value(int rank, std::size_t i) {
  return static_cast<T>(static_cast<std::int64_t>((i * 7 + static_cast<std::size_t>(rank) * 3) % 5) - (rank % 2 == 0 ? 1 : 2));
}

template <class T>
T expected_value(int ranks, std::size_t i, ReduceOp op) {
  T value = input_value<T>(0, i);
  for (int r = 1; r < ranks; ++r) {
    const T x = input_value<T>(r, i);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::avg: value = static_cast<T>(value + x); break;
      case ReduceOp::prod: value = static_cast<T>(value * x); break;
      case ReduceOp::min: value = std::min(value, x); break;
      case ReduceOp::max: value = std::max(value, x); break;
    }
  }
  return op == ReduceOp::avg ? static_cast<T>(value / static_cast<T>(ranks)) : value;
}

/// A buffer whose data begins `shift` elements past an aligned address, with guard elements on both sides.
template <class T>
class ShiftedBuffer {
 public:
  ShiftedBuffer(std::size_t count, std::size_t shift) : count_(count), storage_(count + shift + 2 * kGuard, kMark), begin_(kGuard + shift) {}
  T* data() { return storage_.data() + begin_; }
  std::size_t size() const { return count_; }
  bool guards_intact() const {
    for (std::size_t i = 0; i < storage_.size(); ++i)
      if ((i < begin_ || i >= begin_ + count_) && storage_[i] != kMark) return false;
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 16;
  static constexpr T kMark = static_cast<T>(77);
  std::size_t count_;
  std::vector<T> storage_;
  std::size_t begin_;
};

}  // namespace slipring::tests
