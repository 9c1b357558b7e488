// Element types and reduction operators, as every call names them. Values are part of the ABI.
#ifndef SLIPRING_TYPES_H
#define SLIPRING_TYPES_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "slipring/export.h"

namespace slipring {

/// Numbers are fixed: new types are appended. f16 is IEEE 754 binary16, bf16 the upper half of an f32, bool one
/// byte that is 0 or 1, fp8_e4m3 and fp8_e5m2 are the OCP formats.
enum class DType : std::uint8_t {
  f32 = 0,
  f64 = 1,
  i32 = 2,
  i64 = 3,
  i8 = 4,
  u8 = 5,
  u32 = 6,
  u64 = 7,
  f16 = 8,
  bf16 = 9,
  boolean = 10,  ///< by name "bool"
  fp8_e4m3 = 11,
  fp8_e5m2 = 12,
};
inline constexpr int kDTypeCount = 13;

/// avg of integers rounds toward zero; min and max propagate NaN; sums of integers wrap (two's complement).
/// docs/types.md has the rules in full.
enum class ReduceOp : std::uint8_t { sum = 0, prod = 1, min = 2, max = 3, avg = 4 };
inline constexpr int kReduceOpCount = 5;

/// Whether the operators work on the type. The others are carried: everything that moves data takes them, and a
/// reduction throws Error(unsupported).
constexpr bool is_reducible(DType t) noexcept {
  return t <= DType::bf16;
}

/// Bytes of one element.
constexpr std::size_t dtype_bytes(DType t) noexcept {
  switch (t) {
    case DType::f64:
    case DType::i64:
    case DType::u64:
      return 8;
    case DType::f32:
    case DType::i32:
    case DType::u32:
      return 4;
    case DType::f16:
    case DType::bf16:
      return 2;
    default:
      return 1;
  }
}
SLIPRING_API std::string_view dtype_name(DType t) noexcept;
SLIPRING_API std::string_view reduce_op_name(ReduceOp op) noexcept;
/// Parse the names above; nullopt if unknown.
SLIPRING_API std::optional<DType> parse_dtype(std::string_view name) noexcept;
SLIPRING_API std::optional<ReduceOp> parse_reduce_op(std::string_view name) noexcept;

struct float16;   // slipring/float16.h
struct bfloat16;

template <class T>
struct dtype_of;
template <>
struct dtype_of<float> { static constexpr DType value = DType::f32; };
template <>
struct dtype_of<double> { static constexpr DType value = DType::f64; };
template <>
struct dtype_of<std::int32_t> { static constexpr DType value = DType::i32; };
template <>
struct dtype_of<std::int64_t> { static constexpr DType value = DType::i64; };
template <>
struct dtype_of<std::int8_t> { static constexpr DType value = DType::i8; };
template <>
struct dtype_of<std::uint8_t> { static constexpr DType value = DType::u8; };
template <>
struct dtype_of<std::uint32_t> { static constexpr DType value = DType::u32; };
template <>
struct dtype_of<std::uint64_t> { static constexpr DType value = DType::u64; };
template <>
struct dtype_of<float16> { static constexpr DType value = DType::f16; };
template <>
struct dtype_of<bfloat16> { static constexpr DType value = DType::bf16; };
template <>
struct dtype_of<bool> { static constexpr DType value = DType::boolean; };

}  // namespace slipring

#endif
