// How much memory this process has resident, without program text and files. A page of a segment counts in
// equal parts in each process that has touched it, so that the ranks' sum is what the job takes. Any thread.
#pragma once

#include <cstdint>

namespace slipring::tools::perf {

struct ResidentMemory {
  std::int64_t private_bytes = 0;
  std::int64_t segment_bytes = 0;
};

/// Zeros when /proc cannot be read.
ResidentMemory resident_memory();

}  // namespace slipring::tools::perf
