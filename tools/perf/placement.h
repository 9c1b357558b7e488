// Where the ranks of a benchmark run. The library never moves a thread; this is the bench's own business.
//
// On the default request a rank gets a core of its own when this host has as many cores as ranks, and stays
// where the caller put it otherwise. A CPU list is obeyed: rank r of the node takes its entry r, modulo its
// length.
#pragma once

#include <sched.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slipring/status.h"

namespace slipring::tools::perf {

struct PinRequest {
  enum class Kind { off, one_per_core, list };
  Kind kind = Kind::one_per_core;
  std::vector<int> cpus;  ///< list only
};

/// "0", "1", or a list such as "0,2-5"; nullopt if it is none of these.
std::optional<PinRequest> parse_pin_request(std::string_view text);

/// CPUs that this thread may use, one per core first, then the cores' further threads.
std::vector<int> usable_cpus();

/// Before the ranks meet: limits this thread, and what it starts, to the CPUs of a list, so that the library
/// sees what the ranks will share.
Status limit_to_listed_cpus(const PinRequest& request);

/// Once they have met: moves this thread to the CPU of `local_rank` of `local_size`.
Status pin_rank(const PinRequest& request, int local_rank, int local_size);

/// "CPU 3" or "CPUs 0-3": where this thread may run.
std::string affinity_text();

}  // namespace slipring::tools::perf
