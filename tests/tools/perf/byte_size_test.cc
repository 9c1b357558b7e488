#include "tools/perf/byte_size.h"

#include <gmock/gmock.h>

namespace slipring::tools::perf {
namespace {

using testing::ElementsAre;

TEST(ByteSize, SuffixesArePowersOf1024) {
  EXPECT_EQ(parse_byte_size("0"), 0U);
  EXPECT_EQ(parse_byte_size("4096"), 4096U);
  EXPECT_EQ(parse_byte_size("4K"), 4096U);
  EXPECT_EQ(parse_byte_size("4k"), 4096U);
  EXPECT_EQ(parse_byte_size("3M"), std::size_t{3} << 20);
  EXPECT_EQ(parse_byte_size("8G"), std::size_t{8} << 30);
}

TEST(ByteSize, WhatIsNoSizeIsRefused) {
  for (const char* text : {"", "K", "-1", "4X", "4KB", "4 K", "1.5M", "99999999999999999999", "300000G"}) {
    EXPECT_EQ(parse_byte_size(text), std::nullopt) << text;
  }
}

TEST(Sweep, VisitsPowersOfTheFactorUpToTheLargest) {
  EXPECT_THAT(sweep(4, 1024, 4, 4), ElementsAre(4, 16, 64, 256, 1024));
  EXPECT_THAT(sweep(4, 1023, 4, 4), ElementsAre(4, 16, 64, 256));
}

TEST(Sweep, RoundsDownToWholeElementsWithoutRepeating) {
  EXPECT_THAT(sweep(4, 32, 2, 8), ElementsAre(0, 8, 16, 32));
  EXPECT_THAT(sweep(9, 9, 2, 4), ElementsAre(8));
}

TEST(Sweep, GoesOnFromZeroWithOneElement) {
  EXPECT_THAT(sweep(0, 16, 2, 4), ElementsAre(0, 4, 8, 16));
}

}  // namespace
}  // namespace slipring::tools::perf
