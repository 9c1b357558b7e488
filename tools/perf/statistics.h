// Median and percentiles of timed samples. Pure; any thread.
#pragma once

#include <vector>

namespace slipring::tools::perf {

struct Statistics {
  double median = 0;
  double min = 0;
  // Nearest rank: with fewer than 100 samples p99 is the largest.
  double p90 = 0;
  double p99 = 0;
  double p999 = 0;
  double max = 0;
};

/// `samples` is not empty.
Statistics statistics_of(std::vector<double> samples);

}  // namespace slipring::tools::perf
