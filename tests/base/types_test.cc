#include "slipring/types.h"

#include <gtest/gtest.h>

#include <array>

namespace slipring {
namespace {

TEST(DTypes, NamesSizesAndNumbersBelongTogether) {
  constexpr std::array<std::string_view, kDTypeCount> kNames = {
      "f32", "f64", "i32", "i64", "i8", "u8", "u32", "u64", "f16", "bf16", "bool", "fp8_e4m3", "fp8_e5m2"};
  constexpr std::array<std::size_t, kDTypeCount> kBytes = {4, 8, 4, 8, 1, 1, 4, 8, 2, 2, 1, 1, 1};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_name(dtype), kNames[i]);
    EXPECT_EQ(parse_dtype(kNames[i]), dtype);
    EXPECT_EQ(dtype_bytes(dtype), kBytes[i]);
    EXPECT_EQ(is_reducible(dtype), i < 10) << kNames[i];
  }
  EXPECT_EQ(dtype_name(static_cast<DType>(kDTypeCount)), "unknown");
  EXPECT_FALSE(parse_dtype("boolean"));
  EXPECT_EQ(dtype_of<float16>::value, DType::f16);
  EXPECT_EQ(dtype_of<bfloat16>::value, DType::bf16);
  EXPECT_EQ(dtype_of<bool>::value, DType::boolean);
}

}  // namespace
}  // namespace slipring
