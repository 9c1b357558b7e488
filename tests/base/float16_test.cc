#include "slipring/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

namespace slipring {
namespace {

template <class T>
struct Format;
template <>
struct Format<float16> {
  static constexpr int kMantissaBits = 10, kBias = 15;
};
template <>
struct Format<bfloat16> {
  static constexpr int kMantissaBits = 7, kBias = 127;
};

/// From the definition of the format; nullopt if not finite.
template <class T>
std::optional<double> value_of(std::uint16_t bits) {
  constexpr int kDigits = Format<T>::kMantissaBits;
  const int exponent = (bits & 0x7fff) >> kDigits, fraction = bits & ((1 << kDigits) - 1);
  if (exponent == 2 * Format<T>::kBias + 1) return std::nullopt;
  const double magnitude = exponent == 0
                               ? std::ldexp(fraction, 1 - Format<T>::kBias - kDigits)
                               : std::ldexp(fraction + (1 << kDigits), exponent - Format<T>::kBias - kDigits);
  return bits & 0x8000 ? -magnitude : magnitude;
}

template <class T>
class Float16 : public testing::Test {};
using Types = testing::Types<float16, bfloat16>;
TYPED_TEST_SUITE(Float16, Types);

TYPED_TEST(Float16, EveryValueBecomesFloatExactlyAndComesBack) {
  using T = TypeParam;
  const std::uint16_t infinity = T(std::numeric_limits<float>::infinity()).bits;
  for (int i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float wide = T::from_bits(bits);
    if (const auto value = value_of<T>(bits)) {
      ASSERT_EQ(static_cast<double>(wide), *value) << i;
      ASSERT_EQ(std::signbit(wide), (bits & 0x8000) != 0) << i;
      ASSERT_EQ(T(wide).bits, bits);
    } else if ((bits & 0x7fff) == infinity) {
      ASSERT_EQ(wide, bits & 0x8000 ? -std::numeric_limits<float>::infinity()
                                    : std::numeric_limits<float>::infinity());
      ASSERT_EQ(T(wide).bits, bits);
    } else {
      ASSERT_TRUE(std::isnan(wide)) << i;
      ASSERT_EQ(T(wide).bits, T(std::numeric_limits<float>::quiet_NaN()).bits);
    }
  }
}

// Between every two neighbours: the middle goes to the even one, one float beside the middle to the nearer
// one.
TYPED_TEST(Float16, RoundsToNearestEvenBetweenEveryTwoNeighbours) {
  using T = TypeParam;
  const std::uint16_t infinity = T(std::numeric_limits<float>::infinity()).bits;
  for (int i = 0; i < infinity; ++i) {
    const auto below = static_cast<std::uint16_t>(i), above = static_cast<std::uint16_t>(i + 1);
    // What would follow the largest number if the exponent went on.
    const double upper =
        above == infinity ? std::ldexp(1.0, std::ilogb(*value_of<T>(below)) + 1) : *value_of<T>(above);
    const double exact_middle = (*value_of<T>(below) + upper) / 2;
    const auto middle = static_cast<float>(exact_middle);
    for (const float sign : {1.0f, -1.0f}) {
      const std::uint16_t mark = sign < 0 ? 0x8000 : 0;
      if (static_cast<double>(middle) == exact_middle) {
        ASSERT_EQ(T(sign * middle).bits, mark | (below % 2 == 0 ? below : above)) << i;
        ASSERT_EQ(T(sign * std::nextafter(middle, 0.0f)).bits, mark | below) << i;
        ASSERT_EQ(T(sign * std::nextafter(middle, 1e38f * 4)).bits, mark | above) << i;
      }
      ASSERT_EQ(T(sign * std::nextafter(static_cast<float>(upper), 0.0f)).bits, mark | above) << i;
    }
  }
}

TYPED_TEST(Float16, IsTrivialAndWorksInConstantExpressions) {
  using T = TypeParam;
  static_assert(sizeof(T) == 2 && std::is_trivial_v<T> && std::is_standard_layout_v<T>);
  static_assert(T(1.5f) + T(0.25f) == 1.75f);
  static_assert(!std::is_convertible_v<float, T>);  // rounding is written down
  EXPECT_EQ(T(-0.0f).bits, 0x8000);
}

}  // namespace
}  // namespace slipring
