// Timing one operation at one size, on every rank together. Called by each rank; the result is complete on
// rank 0 only. Failures are thrown as slipring::Error.
#pragma once

#include <cstdint>

#include "slipring/communicator.h"
#include "tools/perf/operation.h"
#include "tools/perf/options.h"
#include "tools/perf/statistics.h"

namespace slipring::tools::perf {

struct Measurement {
  Statistics time_us;       ///< per operation; each figure is that of the slowest rank
  std::uint64_t wrong = 0;  ///< elements, over all ranks
  std::int64_t samples = 0;
  std::int64_t batch = 1;  ///< runs per sample
};

/// `comm` is of all ranks, of which each group runs an `operation` of its own at the same time.
Measurement measure(Communicator& comm, Operation& operation, const Options& options, std::size_t count);

}  // namespace slipring::tools::perf
