#include "tools/perf/statistics.h"

#include <algorithm>

namespace slipring::tools::perf {

Statistics statistics_of(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const std::size_t n = samples.size();
  const double median = n % 2 == 1 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
  const std::size_t p99_rank = (n * 99 + 99) / 100;  // nearest rank, rounded up
  return {median, samples.front(), samples[p99_rank - 1]};
}

}  // namespace slipring::tools::perf
