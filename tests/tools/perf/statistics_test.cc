#include "tools/perf/statistics.h"

#include <gtest/gtest.h>

#include <numeric>

namespace slipring::tools::perf {
namespace {

TEST(Statistics, OfOneSampleAreThatSample) {
  const Statistics s = statistics_of({7});
  EXPECT_EQ(s.median, 7);
  EXPECT_EQ(s.min, 7);
  EXPECT_EQ(s.p99, 7);
}

TEST(Statistics, OrderOfSamplesDoesNotMatter) {
  const Statistics s = statistics_of({9, 1, 5, 2});
  EXPECT_EQ(s.median, 3.5);
  EXPECT_EQ(s.min, 1);
  EXPECT_EQ(s.p99, 9);
}

TEST(Statistics, NinetyNineOfAHundredSamplesAreAtMostTheP99) {
  std::vector<double> samples(100);
  std::iota(samples.begin(), samples.end(), 1);
  EXPECT_EQ(statistics_of(samples).p99, 99);
  samples.resize(200);
  std::iota(samples.begin(), samples.end(), 1);
  EXPECT_EQ(statistics_of(samples).p99, 198);
}

}  // namespace
}  // namespace slipring::tools::perf
