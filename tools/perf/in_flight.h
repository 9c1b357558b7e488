// How a timed loop runs: blocking calls, or asynchronous ones of which a number is kept in flight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "slipring/work.h"

namespace slipring::tools::perf {

/// `depth` 0: call() each time; else start() each time, waiting for the oldest when `depth` are in flight.
template <class Call, class Start>
void run_loop(int depth, std::int64_t times, Call&& call, Start&& start) {
  if (depth == 0) {
    for (std::int64_t i = 0; i < times; ++i) call();
    return;
  }
  std::vector<Work> works(static_cast<std::size_t>(depth));
  for (std::int64_t i = 0; i < times; ++i) {
    Work& oldest = works[static_cast<std::size_t>(i % depth)];
    oldest.wait();
    oldest = start();
  }
  for (Work& work : works) work.wait();
}

}  // namespace slipring::tools::perf
