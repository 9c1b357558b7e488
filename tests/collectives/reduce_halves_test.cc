// f16 and bf16 in the kernels: every value, every rounding, the error of sums, and what is not a number.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "collectives/reduce_kernels.h"
#include "tests/collectives/reduce_reference.h"
#include "tests/collectives/simd_targets.h"

namespace slipring::collectives {
namespace {

template <class T>
struct Format;
template <>
struct Format<float16> {
  static constexpr std::uint16_t kNaN = 0x7e00, kInfinity = 0x7c00, kLargest = 0x7bff;
  static constexpr int kDigits = 11, kSmallestExponent = -24;
};
template <>
struct Format<bfloat16> {
  static constexpr std::uint16_t kNaN = 0x7fc0, kInfinity = 0x7f80, kLargest = 0x7f7f;
  static constexpr int kDigits = 8, kSmallestExponent = -133;
};

template <class T>
std::vector<T> every_value() {
  std::vector<T> values;
  for (int bits = 0; bits < 0x10000; ++bits) values.push_back(T::from_bits(static_cast<std::uint16_t>(bits)));
  return values;
}

template <class T>
std::vector<T> run(ReduceOp op, const std::vector<std::vector<T>>& sources, int divisor = 1) {
  std::vector<T> out(sources.front().size());
  std::vector<const void*> pointers;
  for (const auto& source : sources) pointers.push_back(source.data());
  reduce_kernel(dtype_of<T>::value, op)(out.data(), nullptr, pointers.data(),
                                        static_cast<int>(sources.size()), out.size(), divisor);
  return out;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <class T>
class Halves : public testing::Test {};
using HalfTypes = testing::Types<float16, bfloat16>;
TYPED_TEST_SUITE(Halves, HalfTypes);

TYPED_TEST(Halves, EveryValueOfOneSourceStaysAndEveryNaNBecomesTheOneNaN) {
  using T = TypeParam;
  const std::vector<T> values = every_value<T>();
  std::vector<T> expected = values;
  for (T& v : expected)
    if (std::isnan(v)) v.bits = Format<T>::kNaN;
  for_each_target([&] {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::avg})
      EXPECT_TRUE(same_bits(run<T>(op, {values}), expected)) << reduce_op_name(op);
    for (const ReduceOp op : {ReduceOp::min, ReduceOp::max})
      EXPECT_TRUE(same_bits(run<T>(op, {values}), values)) << reduce_op_name(op);
  });
}

// Against one constant at a time, every value makes sums, products and quotients that are ties, just beside
// ties, denormal and too large.
TYPED_TEST(Halves, EveryValueWithAnyOtherIsRoundedOnceToNearestEven) {
  using T = TypeParam;
  const std::vector<T> values = every_value<T>();
  std::vector<T> others = awkward_values<T>();
  for (const float v : {0.5f, 3.0f, 1.0f / 3, 256.0f, 2049.0f, 1e-3f, 6e4f}) others.push_back(T(v));
  for (const T other : others) {
    const std::vector<std::vector<T>> sources = {values, std::vector<T>(values.size(), other)};
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg}) {
      const std::vector<T> expected = reference(op, sources, 3);
      for_each_target([&] {
        EXPECT_TRUE(same_bits(run<T>(op, sources, 3), expected))
            << reduce_op_name(op) << " with " << static_cast<float>(other);
      });
    }
  }
}

TYPED_TEST(Halves, SumsOfManySourcesAreWithinOneRoundingOfTheirTypeAndThoseOfFloats) {
  using T = TypeParam;
  constexpr std::size_t kCount = 2000;
  std::mt19937_64 random(21);
  for (int n = 1; n <= 16; ++n) {
    std::vector<std::vector<T>> sources(static_cast<std::size_t>(n));
    for (auto& source : sources) {
      for (std::size_t i = 0; i < kCount; ++i) {
        const double value = std::ldexp(static_cast<double>(static_cast<std::int64_t>(random())), -63);
        source.push_back(T(static_cast<float>(std::ldexp(value, static_cast<int>(random() % 24) - 14))));
      }
    }
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg}) {
      for_each_target([&] {
        const std::vector<T> found = run<T>(op, sources, n);
        for (std::size_t i = 0; i < kCount; ++i) {
          long double exact = 0, magnitudes = 0;  // 64 bits hold 24 places and 16 summands of 11 bits
          for (const auto& source : sources) {
            exact += static_cast<float>(source[i]);
            magnitudes += std::fabs(static_cast<float>(source[i]));
          }
          const int divisor = op == ReduceOp::avg ? n : 1;
          exact /= divisor, magnitudes /= divisor;
          const long double in_float = std::ldexp(magnitudes, -24) * n;
          const long double last = std::ldexp(std::fabs(exact) + in_float, -Format<T>::kDigits) +
                                   std::ldexp(0.5L, Format<T>::kSmallestExponent);
          ASSERT_LE(std::fabs(static_cast<float>(found[i]) - exact), in_float + last) << "n " << n;
        }
      });
    }
  }
}

TYPED_TEST(Halves, PartialSumsMayExceedTheTypeAndBecomeInfiniteOnlyInTheResult) {
  using T = TypeParam;
  const T largest = T::from_bits(Format<T>::kLargest), negative = T::from_bits(0x8000 | Format<T>::kLargest);
  const std::vector<T> many(77, largest), back(77, negative);
  if constexpr (std::is_same_v<T, float16>) {
    for_each_target([&] { EXPECT_TRUE(same_bits(run<T>(ReduceOp::sum, {many, many, back}), many)); });
  }
  const std::vector<T> infinite(77, T::from_bits(Format<T>::kInfinity));
  for_each_target([&] {
    EXPECT_TRUE(same_bits(run<T>(ReduceOp::sum, {many, many}), infinite));
    EXPECT_TRUE(same_bits(run<T>(ReduceOp::sum, {many, back}), std::vector<T>(77, T(0.0f))));
  });
}

TYPED_TEST(Halves, MinimumAndMaximumKeepTheFirstNaNBitForBit) {
  using T = TypeParam;
  std::vector<T> nan, number, other;
  for (const int sign : {0, 0x8000}) {
    for (int bits = Format<T>::kInfinity + 1; bits < 0x8000; ++bits) {
      for (const T beside : awkward_values<T>()) {
        nan.push_back(T::from_bits(static_cast<std::uint16_t>(sign | bits)));
        number.push_back(std::isnan(beside) ? T(1.0f) : beside);
        other.push_back(T::from_bits(static_cast<std::uint16_t>((sign ^ 0x8000) | (bits ^ 1))));
      }
    }
  }
  for (T& v : other)
    if (!std::isnan(v)) v.bits |= 2;  // the neighbour of the first NaN is infinity
  for_each_target([&] {
    for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
      EXPECT_TRUE(same_bits(run<T>(op, {nan, number}), nan)) << reduce_op_name(op);
      EXPECT_TRUE(same_bits(run<T>(op, {number, nan}), nan)) << reduce_op_name(op);
      EXPECT_TRUE(same_bits(run<T>(op, {nan, other}), nan)) << reduce_op_name(op);
      EXPECT_TRUE(same_bits(run<T>(op, {number, other, nan, number}), other)) << reduce_op_name(op);
    }
  });
}

TYPED_TEST(Halves, MinimumTakesNegativeZeroAndMaximumPositiveZeroInEitherOrder) {
  using T = TypeParam;
  const std::vector<T> positive(70, T(0.0f)), negative(70, T(-0.0f));
  for_each_target([&] {
    EXPECT_TRUE(same_bits(run<T>(ReduceOp::min, {positive, negative}), negative));
    EXPECT_TRUE(same_bits(run<T>(ReduceOp::min, {negative, positive}), negative));
    EXPECT_TRUE(same_bits(run<T>(ReduceOp::max, {positive, negative}), positive));
    EXPECT_TRUE(same_bits(run<T>(ReduceOp::max, {negative, positive}), positive));
  });
}

}  // namespace
}  // namespace slipring::collectives
