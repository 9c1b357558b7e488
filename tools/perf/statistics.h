// Median, minimum and 99th percentile of timed samples. Pure; any thread.
#pragma once

#include <vector>

namespace slipring::tools::perf {

struct Statistics {
  double median = 0;
  double min = 0;
  double p99 = 0;  ///< nearest rank: with fewer than 100 samples it is the largest
};

/// `samples` is not empty.
Statistics statistics_of(std::vector<double> samples);

}  // namespace slipring::tools::perf
