// What this host offers a job, as far as Slipring cares: CPUs, caches, /dev/shm, huge pages.
//
// Read afresh at each call from the kernel's files. Nothing fails: a fact that cannot be read says so in its
// place. Any thread.
#pragma once

#include <sched.h>

#include <cstdint>
#include <string>
#include <vector>

namespace slipring::tools {

/// `facts.first` is what it is, `facts.second` what was found, e.g. {"kernel", "Linux 6.1.0"}.
using Fact = std::pair<std::string, std::string>;
std::vector<Fact> host_facts();

/// "0-3,8" for the CPUs of the set; "none" when it is empty.
std::string cpu_list(const cpu_set_t& cpus);

/// "32.0 KiB", "15.5 GiB"; plain bytes below 1 KiB.
std::string readable_bytes(std::uint64_t bytes);

}  // namespace slipring::tools
