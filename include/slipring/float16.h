// float16 and bfloat16: how C++ programs hold elements of DType::f16 and DType::bf16.
//
// Trivial types of two bytes, made to be stored: they have no arithmetic of their own, and in an expression
// they become float, exactly. Back from float they round to nearest, ties to even; what is too large becomes
// infinite, what is too small keeps its bits as a denormal, and a NaN becomes the one positive quiet NaN.
// Usable in constant expressions and from any thread.
#ifndef SLIPRING_FLOAT16_H
#define SLIPRING_FLOAT16_H

#include <bit>
#include <cstdint>

#include "slipring/types.h"

namespace slipring {

/// IEEE 754 binary16: 1 sign, 5 exponent and 10 mantissa bits; largest 65504, smallest normal 2^-14.
struct float16 {
  std::uint16_t bits;

  float16() = default;
  constexpr explicit float16(float value) noexcept : bits(rounded(std::bit_cast<std::uint32_t>(value))) {}
  static constexpr float16 from_bits(std::uint16_t bits) noexcept {
    float16 made(0.0f);
    made.bits = bits;
    return made;
  }

  constexpr operator float() const noexcept {
    const std::uint32_t sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
    if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | magnitude << 13);
    if (magnitude >= 0x0400) return std::bit_cast<float>(sign | ((magnitude << 13) + kRebias));
    const float denormal = static_cast<float>(magnitude) * 0x1p-24f;
    return sign != 0 ? -denormal : denormal;
  }

 private:
  static constexpr std::uint32_t kRebias = (127 - 15) << 23;  // from this exponent's bias to that of float

  static constexpr std::uint16_t rounded(std::uint32_t value) noexcept {
    const auto sign = static_cast<std::uint16_t>(value >> 16 & 0x8000);
    const std::uint32_t magnitude = value & 0x7fffffff;
    if (magnitude > 0x7f800000) return 0x7e00;
    if (magnitude >= 0x47800000) return sign | 0x7c00;  // 2^16 and above
    if (magnitude < 0x38800000) {  // below 2^-14: the sum with 0.5 rounds to multiples of 2^-24
      const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
      return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000));
    }
    const std::uint32_t is_odd = magnitude >> 13 & 1;
    return static_cast<std::uint16_t>(sign | (magnitude - kRebias + 0xfff + is_odd) >> 13);
  }
};

/// The upper half of a float: 1 sign, 8 exponent and 7 mantissa bits.
struct bfloat16 {
  std::uint16_t bits;

  bfloat16() = default;
  constexpr explicit bfloat16(float value) noexcept : bits(rounded(std::bit_cast<std::uint32_t>(value))) {}
  static constexpr bfloat16 from_bits(std::uint16_t bits) noexcept {
    bfloat16 made(0.0f);
    made.bits = bits;
    return made;
  }

  constexpr operator float() const noexcept { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

 private:
  static constexpr std::uint16_t rounded(std::uint32_t value) noexcept {
    if ((value & 0x7fffffff) > 0x7f800000) return 0x7fc0;
    return static_cast<std::uint16_t>((value + 0x7fff + (value >> 16 & 1)) >> 16);
  }
};

}  // namespace slipring

#endif
