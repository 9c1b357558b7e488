// What a reduction must yield, written from the contract in collectives/reduce_kernels.h and sharing no code
// with the kernels: one element at a time, each step exact in a wider type and then rounded or wrapped once.
// Halves (f16, bf16) are held as f32 until the end.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "slipring/float16.h"
#include "slipring/types.h"

namespace slipring::collectives {

// 113 bits of mantissa: sums, products and quotients of two doubles round to double as if computed exactly.
__extension__ typedef __float128 WideFloat;
__extension__ typedef __int128 WideInt;
__extension__ typedef unsigned __int128 WideUnsigned;

template <class T>
inline constexpr bool is_half = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;
template <class T>
inline constexpr bool is_float = std::is_floating_point_v<T> || is_half<T>;

template <class T>
T first_by_order(T held, T next, bool want_smaller) {
  if constexpr (is_float<T>) {
    if (std::isnan(held)) return held;
    if (std::isnan(next)) return next;
    if (held == next) return std::signbit(held) == want_smaller ? held : next;
  }
  return (held < next) == want_smaller ? held : next;
}

template <class T>
T reference_step(ReduceOp op, T held, T next) {
  if (op == ReduceOp::min || op == ReduceOp::max) return first_by_order(held, next, op == ReduceOp::min);
  if constexpr (std::is_floating_point_v<T>) {
    const auto a = static_cast<WideFloat>(held);
    const auto b = static_cast<WideFloat>(next);
    return static_cast<T>(op == ReduceOp::prod ? a * b : a + b);
  } else {
    using Wide = std::conditional_t<std::is_signed_v<T>, WideInt, WideUnsigned>;
    const auto a = static_cast<Wide>(held);
    const auto b = static_cast<Wide>(next);
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(op == ReduceOp::prod ? a * b : a + b));
  }
}

template <class T>
T reference_element(ReduceOp op, const std::vector<T>& column, int divisor) {
  if constexpr (is_half<T>) {
    if (op != ReduceOp::min && op != ReduceOp::max) {
      const std::vector<float> wide(column.begin(), column.end());
      return T(reference_element(op, wide, divisor));
    }
  }
  T held = column.front();
  for (std::size_t k = 1; k < column.size(); ++k) {
    if constexpr (is_half<T>) {
      held = first_by_order(held, column[k], op == ReduceOp::min);
    } else {
      held = reference_step(op, held, column[k]);
    }
  }
  if constexpr (is_half<T>) {
    return held;
  } else if constexpr (std::is_floating_point_v<T>) {
    if (op == ReduceOp::avg)
      held = static_cast<T>(static_cast<WideFloat>(held) / static_cast<WideFloat>(divisor));
    if (op != ReduceOp::min && op != ReduceOp::max && std::isnan(held))
      return std::numeric_limits<T>::quiet_NaN();
  } else if (op == ReduceOp::avg) {
    held = static_cast<T>(static_cast<WideInt>(held) / divisor);
  }
  return held;
}

/// out[i] for every i, from sources[k][i].
template <class T>
std::vector<T> reference(ReduceOp op, const std::vector<std::vector<T>>& sources, int divisor) {
  std::vector<T> out(sources.front().size());
  std::vector<T> column(sources.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    for (std::size_t k = 0; k < sources.size(); ++k) column[k] = sources[k][i];
    out[i] = reference_element(op, column, divisor);
  }
  return out;
}

/// Values that arithmetic gets wrong first: NaN with payloads and both signs, infinities, zeros of both
/// signs, the smallest and largest of the type.
template <class T>
std::vector<T> awkward_values() {
  using Limits = std::numeric_limits<T>;
  if constexpr (is_half<T>) {
    // Infinity, NaN of both kinds, zero, one, the ends of the denormal and the normal range; then negated.
    std::vector<T> values;
    const std::uint16_t infinity = std::is_same_v<T, float16> ? 0x7c00 : 0x7f80;
    const std::uint16_t smallest = std::is_same_v<T, float16> ? 0x0400 : 0x0080;
    const std::uint16_t one = std::is_same_v<T, float16> ? 0x3c00 : 0x3f80;
    for (const int sign : {0, 0x8000}) {
      for (const int bits : {infinity + 0, infinity + 1, 0x7fff, infinity - 1, 0, 1, one + 0, one + 1,
                             smallest - 1, smallest + 0, smallest + 1})
        values.push_back(T::from_bits(static_cast<std::uint16_t>(sign | bits)));
    }
    return values;
  } else if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    const T quiet = Limits::quiet_NaN();
    const T payload = std::bit_cast<T>(static_cast<Bits>(std::bit_cast<Bits>(quiet) | 0x123));
    return {quiet,
            payload,
            std::copysign(payload, T(-1)),
            Limits::infinity(),
            -Limits::infinity(),
            T(0),
            -T(0),
            T(1),
            -T(1),
            Limits::denorm_min(),
            -Limits::denorm_min(),
            Limits::min(),
            Limits::max(),
            -Limits::max(),
            Limits::epsilon()};
  } else {
    return {Limits::min(), Limits::max(),      T(0),
            T(1),          static_cast<T>(-1), static_cast<T>(Limits::min() + 1),
            T(7),          static_cast<T>(-7)};
  }
}

/// Ordinary numbers with an awkward one in every eighth place on average.
template <class T>
std::vector<T> mixed_values(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::vector<T> awkward = awkward_values<T>();
  std::vector<T> values(count);
  for (T& value : values) {
    const std::uint64_t bits = random();
    if (bits % 8 == 0) {
      value = awkward[(bits >> 8) % awkward.size()];
    } else if constexpr (is_float<T>) {
      using Computed = std::conditional_t<is_half<T>, float, T>;
      const auto exponent = static_cast<int>((bits >> 8) % 21) - 10;
      value = T(std::ldexp(static_cast<Computed>(static_cast<std::int64_t>(random())), exponent - 62));
    } else {
      value = static_cast<T>(bits >> ((bits >> 3) % 40));
    }
  }
  return values;
}

template <class T>
std::vector<std::vector<T>> mixed_sources(int n, std::size_t count, std::uint64_t seed) {
  std::vector<std::vector<T>> sources;
  for (int k = 0; k < n; ++k)
    sources.push_back(mixed_values<T>(count, seed * 64 + static_cast<std::uint64_t>(k)));
  return sources;
}

}  // namespace slipring::collectives
