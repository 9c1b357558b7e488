// What the process's control group still grants: memory and CPU time. Read afresh at each call, from cgroup
// v2 or, for memory, v1. Any thread. Nothing fails: a limit that cannot be read is no limit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace slipring::base {

/// Where to look; tests point it at a tree of their own.
struct CgroupPaths {
  std::string membership = "/proc/self/cgroup";
  std::string root = "/sys/fs/cgroup";
};

/// Bytes until the tightest memory limit on the way to the root, page cache that can be dropped counted as
/// free.
std::optional<std::uint64_t> cgroup_memory_left_bytes(const CgroupPaths& paths = {});

/// CPUs' worth of time per period that the tightest cpu.max grants; cgroup v2.
std::optional<double> cgroup_cpu_quota(const CgroupPaths& paths = {});

/// "QUOTA PERIOD" as in cpu.max; nullopt for "max" or anything else.
std::optional<double> parse_cpu_max(std::string_view text);

}  // namespace slipring::base
