// Pattern: known data of every rank, and what the operators must make of it, so that every element can be
// checked.
//
// Values are small integers chosen so that any order of reduction is exact in every type, also if each step
// rounds to bf16; in unsigned types they wrap, bool holds their lowest bit. They repeat after kPeriod
// elements, a prime, so that data shifted by any chunk or block does not pass. Each seed gives other values:
// results of an earlier run do not pass either. Each rank makes its own, equal one. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "slipring/types.h"

namespace slipring::tools::perf {

class Pattern {
 public:
  static constexpr std::size_t kPeriod = 4099;

  Pattern(DType dtype, ReduceOp op, int ranks, std::uint64_t seed);

  /// The data of `rank`, from its element `first` on.
  void fill(void* buffer, std::size_t count, int rank, std::size_t first = 0) const;
  /// Elements of `buffer` that are not the data of `rank` from its element `first` on.
  std::uint64_t wrong_data(const void* buffer, std::size_t count, int rank, std::size_t first = 0) const;
  /// Elements of `buffer` that are not the reduction of all ranks' data, from its element `first` on.
  std::uint64_t wrong_reduction(const void* buffer, std::size_t count, std::size_t first = 0) const;

 private:
  std::vector<std::byte> data_of(int rank) const;
  std::uint64_t differing(const void* buffer, std::size_t count, const std::vector<std::byte>& expected,
                          std::size_t first) const;

  DType dtype_;
  ReduceOp op_;
  int ranks_;
  std::uint64_t seed_;
};

/// A value that `op` over any number of ranks that all hold it leaves as it is.
int fixed_point(ReduceOp op) noexcept;
void fill_constant(void* buffer, std::size_t count, DType dtype, int value);
std::uint64_t wrong_constant(const void* buffer, std::size_t count, DType dtype, int value);
/// Fills with bytes that are no element of any pattern.
void fill_garbage(void* buffer, std::size_t bytes);

}  // namespace slipring::tools::perf
