// Element types and reduction operators, as every call names them. Values are part of the ABI.
#ifndef SLIPRING_TYPES_H
#define SLIPRING_TYPES_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "slipring/export.h"

namespace slipring {

/// Numbers are fixed: new types are appended.
enum class DType : std::uint8_t {
  f32 = 0,
  f64 = 1,
  i32 = 2,
  i64 = 3,
};
inline constexpr int kDTypeCount = 4;

/// avg of integers rounds toward zero; min and max propagate NaN; sums of integers wrap (two's complement).
enum class ReduceOp : std::uint8_t { sum = 0, prod = 1, min = 2, max = 3, avg = 4 };
inline constexpr int kReduceOpCount = 5;

/// Bytes of one element.
constexpr std::size_t dtype_bytes(DType t) noexcept {
  return (t == DType::f32 || t == DType::i32) ? 4 : 8;
}
SLIPRING_API std::string_view dtype_name(DType t) noexcept;
SLIPRING_API std::string_view reduce_op_name(ReduceOp op) noexcept;
/// Parse the names above; nullopt if unknown.
SLIPRING_API std::optional<DType> parse_dtype(std::string_view name) noexcept;
SLIPRING_API std::optional<ReduceOp> parse_reduce_op(std::string_view name) noexcept;

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

}  // namespace slipring

#endif
