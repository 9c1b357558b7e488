#include "tools/perf/pattern.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "slipring/float16.h"

namespace slipring::tools::perf {
namespace {

/// An 8-bit float: its bytes are data here, its values are never computed with.
struct Byte {
  std::uint8_t bits;
  Byte() = default;
  explicit Byte(std::int64_t value) : bits(static_cast<std::uint8_t>(value)) {}
  bool operator==(const Byte&) const = default;
};

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
      return f(std::int64_t{});
    case DType::i8:
      return f(std::int8_t{});
    case DType::u8:
      return f(std::uint8_t{});
    case DType::u32:
      return f(std::uint32_t{});
    case DType::u64:
      return f(std::uint64_t{});
    case DType::f16:
      return f(float16{});
    case DType::bf16:
      return f(bfloat16{});
    case DType::boolean:
      return f(bool{});
    case DType::fp8_e4m3:
    case DType::fp8_e5m2:
      break;
  }
  return f(Byte{});
}

/// splitmix64's mixing step: neighbouring inputs give unrelated outputs.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

/// To here bf16 has every integer.
constexpr int kLargestSum = 256;

/// Small enough for the sum of all ranks' elements to be exact in 16 bits; beyond 256 ranks only that many,
/// others for the next index, have more than a zero.
int small_summand(int ranks, std::uint64_t bits, int rank, std::size_t index) {
  const int largest = std::clamp(kLargestSum / ranks, 1, 63);
  const auto place = (index + static_cast<std::size_t>(rank)) % static_cast<std::size_t>(ranks);
  if (place >= kLargestSum) return 0;
  return static_cast<int>(bits % static_cast<unsigned>(2 * largest + 1)) - largest;
}

template <class T>
int element(ReduceOp op, int ranks, std::uint64_t seed, int rank, std::size_t index) {
  const std::uint64_t bits =
      mixed(seed * 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(rank) * Pattern::kPeriod + index);
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    if (op == ReduceOp::sum || op == ReduceOp::avg) return small_summand(ranks, bits, rank, index);
  }
  if (op != ReduceOp::prod) return static_cast<int>(bits % 127) - 63;
  // One rank brings in a factor of 3 and the others a sign: products stay small for any number of ranks.
  const int magnitude = static_cast<int>(index % static_cast<std::size_t>(ranks)) == rank ? 3 : 1;
  return bits & 1 ? magnitude : -magnitude;
}

/// The integer as T has it: an unsigned type wraps what is negative, bool has its lowest bit.
template <class T>
T as(std::int64_t value) {
  if constexpr (std::is_same_v<T, bool>) {
    return (value & 1) != 0;
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
T quotient(std::int64_t sum, int ranks) {
  if constexpr (std::is_integral_v<T>) {
    using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
    return static_cast<T>(Wide{as<T>(sum)} / static_cast<Wide>(ranks));
  } else {
    using Computed = std::conditional_t<sizeof(T) < sizeof(float), float, T>;
    return static_cast<T>(static_cast<Computed>(sum) / static_cast<Computed>(ranks));
  }
}

/// As T computes it; sums and products of elements are exact in every type of floats, and wrap in integers.
template <class T>
T reduced(ReduceOp op, int ranks, std::uint64_t seed, std::size_t index) {
  std::int64_t total = element<T>(op, ranks, seed, 0, index);
  T extreme = as<T>(total);
  for (int rank = 1; rank < ranks; ++rank) {
    const std::int64_t next = element<T>(op, ranks, seed, rank, index);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::avg:
        total += next;
        break;
      case ReduceOp::prod:
        total *= next;
        break;
      case ReduceOp::min:
        extreme = std::min(extreme, as<T>(next));
        break;
      case ReduceOp::max:
        extreme = std::max(extreme, as<T>(next));
        break;
    }
  }
  if (op == ReduceOp::min || op == ReduceOp::max) return extreme;
  return op == ReduceOp::avg ? quotient<T>(total, ranks) : as<T>(total);
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
    return period_of<T>([&](std::size_t i) { return as<T>(element<T>(op_, ranks_, seed_, rank, i)); });
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
                  if constexpr (std::is_same_v<T, Byte>) {
                    return std::vector<std::byte>();  // never asked for
                  } else {
                    return period_of<T>([&](std::size_t i) { return reduced<T>(op_, ranks_, seed_, i); });
                  }
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
  with_type(dtype, [&]<class T>(T) { std::fill_n(static_cast<T*>(buffer), count, as<T>(value)); });
}

std::uint64_t wrong_constant(const void* buffer, std::size_t count, DType dtype, int value) {
  return with_type(dtype, [&]<class T>(T) {
    const T* elements = static_cast<const T*>(buffer);
    return static_cast<std::uint64_t>(
        std::count_if(elements, elements + count, [&](T found) { return found != as<T>(value); }));
  });
}

void fill_garbage(void* buffer, std::size_t bytes) {
  std::memset(buffer, 0xa5, bytes);
}

}  // namespace slipring::tools::perf
