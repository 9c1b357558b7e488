#include "tools/perf/statistics.h"

#include <algorithm>

namespace slipring::tools::perf {

Statistics statistics_of(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const std::size_t n = samples.size();
  const double median = n % 2 == 1 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
  const auto percentile = [&](std::size_t thousandths) { return samples[(n * thousandths + 999) / 1000 - 1]; };  // nearest rank
  return {.median = median, .min = samples.front(), .p90 = percentile(900), .p99 = percentile(990), .p999 = percentile(999),
          .max = samples.back()};
}

}  // namespace slipring::tools::perf
