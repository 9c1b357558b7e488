// How much memory this process has resident, as the kernel counts it. Any thread.
#pragma once

#include <cstdint>

namespace slipring::tools::perf {

struct ResidentMemory {
  std::int64_t bytes = 0;         ///< private and shared
  std::int64_t shared_bytes = 0;  ///< of these, in shared segments
};

/// Zeros when /proc cannot be read.
ResidentMemory resident_memory();

}  // namespace slipring::tools::perf
