#include "tools/perf/pattern.h"

#include <algorithm>
#include <cstring>

namespace slipring::tools::perf {
namespace {

/// Calls `f` with a value of the C++ type.
template <class F>
auto with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::f64:
      return f(double{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::i64:
      break;
  }
  return f(std::int64_t{});
}

/// splitmix64's mixing step: neighbouring inputs give unrelated outputs.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

int element(ReduceOp op, int ranks, std::uint64_t seed, int rank, std::size_t index) {
  const std::uint64_t bits =
      mixed(seed * 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(rank) * Pattern::kPeriod + index);
  if (op != ReduceOp::prod) return static_cast<int>(bits % 127) - 63;
  // One rank brings in a factor of 3 and the others a sign: products stay small for any number of ranks.
  const int magnitude = static_cast<int>(index % static_cast<std::size_t>(ranks)) == rank ? 3 : 1;
  return bits & 1 ? magnitude : -magnitude;
}

/// As T computes it; sums and products of elements are exact in every type.
template <class T>
T reduced(ReduceOp op, int ranks, std::uint64_t seed, std::size_t index) {
  std::int64_t value = element(op, ranks, seed, 0, index);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::int64_t next = element(op, ranks, seed, rank, index);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::avg:
        value += next;
        break;
      case ReduceOp::prod:
        value *= next;
        break;
      case ReduceOp::min:
        value = std::min(value, next);
        break;
      case ReduceOp::max:
        value = std::max(value, next);
        break;
    }
  }
  return op == ReduceOp::avg ? static_cast<T>(value) / static_cast<T>(ranks) : static_cast<T>(value);
}

template <class T, class Value>
std::vector<std::byte> period_of(Value&& value) {
  std::vector<std::byte> bytes(Pattern::kPeriod * sizeof(T));
  for (std::size_t i = 0; i < Pattern::kPeriod; ++i) {
    const T v = value(i);
    std::memcpy(bytes.data() + i * sizeof(T), &v, sizeof v);
  }
  return bytes;
}

/// Calls `f` with each stretch of [0, count) that lies in one period: start in the buffer, start in the
/// period, length.
template <class F>
void for_each_stretch(std::size_t count, std::size_t first, F&& f) {
  for (std::size_t done = 0; done < count;) {
    const std::size_t from = (first + done) % Pattern::kPeriod;
    const std::size_t length = std::min(count - done, Pattern::kPeriod - from);
    f(done, from, length);
    done += length;
  }
}

}  // namespace

Pattern::Pattern(DType dtype, ReduceOp op, int ranks, std::uint64_t seed)
    : dtype_(dtype), op_(op), ranks_(ranks), seed_(seed) {}

std::vector<std::byte> Pattern::data_of(int rank) const {
  return with_type(dtype_, [&]<class T>(T) {
    return period_of<T>([&](std::size_t i) { return static_cast<T>(element(op_, ranks_, seed_, rank, i)); });
  });
}

void Pattern::fill(void* buffer, std::size_t count, int rank, std::size_t first) const {
  const std::vector<std::byte> data = data_of(rank);
  const std::size_t width = dtype_bytes(dtype_);
  for_each_stretch(count, first, [&](std::size_t to, std::size_t from, std::size_t length) {
    std::memcpy(static_cast<std::byte*>(buffer) + to * width, data.data() + from * width, length * width);
  });
}

std::uint64_t Pattern::wrong_data(const void* buffer, std::size_t count, int rank, std::size_t first) const {
  return differing(buffer, count, data_of(rank), first);
}

std::uint64_t Pattern::wrong_reduction(const void* buffer, std::size_t count, std::size_t first) const {
  return differing(
      buffer, count,
      with_type(dtype_,
                [&]<class T>(T) {
                  return period_of<T>([&](std::size_t i) { return reduced<T>(op_, ranks_, seed_, i); });
                }),
      first);
}

std::uint64_t Pattern::differing(const void* buffer, std::size_t count,
                                 const std::vector<std::byte>& expected, std::size_t first) const {
  const std::size_t width = dtype_bytes(dtype_);
  const auto* found = static_cast<const std::byte*>(buffer);
  std::uint64_t wrong = 0;
  for_each_stretch(count, first, [&](std::size_t at, std::size_t from, std::size_t length) {
    const std::byte* a = found + at * width;
    const std::byte* b = expected.data() + from * width;
    if (std::memcmp(a, b, length * width) == 0) return;
    for (std::size_t i = 0; i < length; ++i) wrong += std::memcmp(a + i * width, b + i * width, width) != 0;
  });
  return wrong;
}

int fixed_point(ReduceOp op) noexcept {
  return op == ReduceOp::sum ? 0 : 1;
}

void fill_constant(void* buffer, std::size_t count, DType dtype, int value) {
  with_type(dtype, [&]<class T>(T) { std::fill_n(static_cast<T*>(buffer), count, static_cast<T>(value)); });
}

std::uint64_t wrong_constant(const void* buffer, std::size_t count, DType dtype, int value) {
  return with_type(dtype, [&]<class T>(T) {
    const T* elements = static_cast<const T*>(buffer);
    return static_cast<std::uint64_t>(
        std::count_if(elements, elements + count, [&](T found) { return found != static_cast<T>(value); }));
  });
}

void fill_garbage(void* buffer, std::size_t bytes) {
  std::memset(buffer, 0xa5, bytes);
}

}  // namespace slipring::tools::perf
