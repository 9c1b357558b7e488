#include "slipring/types.h"

#include <array>

namespace slipring {
namespace {
constexpr std::array<std::string_view, kDTypeCount> kDTypeNames{
    "f32", "f64", "i32", "i64", "i8", "u8", "u32", "u64", "f16", "bf16", "bool", "fp8_e4m3", "fp8_e5m2"};
constexpr std::array<std::string_view, kReduceOpCount> kReduceOpNames{"sum", "prod", "min", "max", "avg"};

template <class Enum, std::size_t N>
std::optional<Enum> parse(const std::array<std::string_view, N>& names, std::string_view name) noexcept {
  for (std::size_t i = 0; i < N; ++i)
    if (names[i] == name) return static_cast<Enum>(i);
  return std::nullopt;
}
}  // namespace

std::string_view dtype_name(DType t) noexcept {
  const auto i = static_cast<std::size_t>(t);
  return i < kDTypeNames.size() ? kDTypeNames[i] : "unknown";
}

std::string_view reduce_op_name(ReduceOp op) noexcept {
  const auto i = static_cast<std::size_t>(op);
  return i < kReduceOpNames.size() ? kReduceOpNames[i] : "unknown";
}

std::optional<DType> parse_dtype(std::string_view name) noexcept { return parse<DType>(kDTypeNames, name); }
std::optional<ReduceOp> parse_reduce_op(std::string_view name) noexcept {
  return parse<ReduceOp>(kReduceOpNames, name);
}

}  // namespace slipring
