// The benchmark as one rank runs it: header, sweep, closing. Called once on every rank of the communicator.
#pragma once

#include "slipring/communicator.h"
#include "tools/perf/options.h"
#include "tools/perf/resident_memory.h"

namespace slipring::tools::perf {

/// Exit status: on rank 0 whether anything was wrong, 0 on the others. `before_join` is what was resident
/// before this process joined. Throws slipring::Error.
int run_bench(Communicator& comm, const Options& options, const ResidentMemory& before_join);

}  // namespace slipring::tools::perf
