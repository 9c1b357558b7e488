#include "base/config_value.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/nearest_name.h"

namespace slipring::base {
namespace {

constexpr std::size_t kBool = 0, kInteger = 1, kNumber = 2, kString = 3;

TEST(ConfigValueTest, BoolTakesFourWords) {
  EXPECT_EQ(parse_config_value(kBool, "true"), ConfigValue(true));
  EXPECT_EQ(parse_config_value(kBool, "1"), ConfigValue(true));
  EXPECT_EQ(parse_config_value(kBool, "false"), ConfigValue(false));
  EXPECT_EQ(parse_config_value(kBool, "0"), ConfigValue(false));
  for (const char* bad : {"", "True", "2", "on", "true "})
    EXPECT_FALSE(parse_config_value(kBool, bad)) << bad;
}

TEST(ConfigValueTest, IntegersReachBothEndsAndNoFurther) {
  EXPECT_EQ(parse_config_value(kInteger, "9223372036854775807"),
            ConfigValue(std::numeric_limits<std::int64_t>::max()));
  EXPECT_EQ(parse_config_value(kInteger, "-9223372036854775808"),
            ConfigValue(std::numeric_limits<std::int64_t>::min()));
  EXPECT_FALSE(parse_config_value(kInteger, "9223372036854775808"));
  EXPECT_FALSE(parse_config_value(kInteger, "0x10"));
  EXPECT_FALSE(parse_config_value(kInteger, "1e3"));
}

TEST(ConfigValueTest, NumbersAreFiniteAndTheirLiteralsKeepValueAndType) {
  for (const double number : {0.0, -0.0, 1.0, -3.0, 0.1, 1e300, 5e-324, 123456789.125}) {
    const std::string literal = toml_literal(number);
    EXPECT_EQ(parse_config_value(kNumber, literal), ConfigValue(number)) << literal;
    EXPECT_NE(literal.find_first_of(".e"), std::string::npos) << literal;
  }
  for (const char* bad : {"", "nan", "inf", "-inf", "1e999", "1.0x"})
    EXPECT_FALSE(parse_config_value(kNumber, bad)) << bad;
}

TEST(ConfigValueTest, StringsAreUtf8) {
  for (const char* good : {"", "plain", "\xC3\xA4", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xED\x9F\xBF"})
    EXPECT_TRUE(parse_config_value(kString, good)) << good;
  for (const char* bad : {"\xFF", "\x80", "\xC3", "\xC0\xAF", "\xE0\x9F\xBF", "\xED\xA0\x80",
                          "\xF4\x90\x80\x80", "\xF0\x8F\xBF\xBF", "ok\xE2\x82"})
    EXPECT_FALSE(parse_config_value(kString, bad)) << bad;
}

TEST(AllowedTest, RangesHoldAtTheirEnds) {
  const Allowed range = allowed::automatic_or(allowed::between(2, 5));
  for (const std::int64_t good : {-1, 2, 5}) EXPECT_TRUE(range.accept(good)) << good;
  for (const std::int64_t bad : {-2, 0, 1, 6}) EXPECT_FALSE(range.accept(bad)) << bad;
  EXPECT_TRUE(range.accept(2.5));
  EXPECT_FALSE(range.accept(5.5));
  EXPECT_TRUE(allowed::anything().accept(std::numeric_limits<std::int64_t>::min()));
  EXPECT_FALSE(allowed::at_least(0).accept(std::int64_t{-1}));
}

TEST(AllowedTest, DescribesItself) {
  EXPECT_EQ(allowed::anything().describe(kInteger), "an integer");
  EXPECT_EQ(allowed::anything().describe(kNumber), "a number");
  EXPECT_EQ(allowed::at_least(3).describe(kInteger), "an integer of at least 3");
  EXPECT_EQ(allowed::automatic_or(allowed::between(0, 4)).describe(kNumber),
            "-1 (automatic) or a number from 0 to 4");
  EXPECT_EQ(allowed::one_of("a", "b").describe(kString), "a, b");
}

TEST(NearestNameTest, FindsTyposAndRefusesStrangers) {
  constexpr std::string_view kNames[] = {"wait.spin_ns", "wait.yield_ns", "plan.rings"};
  EXPECT_EQ(nearest_name("wait.spin_ns", kNames), "wait.spin_ns");
  EXPECT_EQ(nearest_name("wait.spni_ns", kNames), "wait.spin_ns");  // neighbours swapped
  EXPECT_EQ(nearest_name("wait.spin", kNames), "wait.spin_ns");     // cut short
  EXPECT_EQ(nearest_name("plam.ring", kNames), "plan.rings");       // two edits
  EXPECT_EQ(nearest_name("zebra", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name("plan.rings", {}), "");
}

}  // namespace
}  // namespace slipring::base
