#include "base/cpuset.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/cgroup.h"

namespace slipring::base {

namespace {

constexpr int kMaxCpus = 1 << 16;

struct FreeCpuMask {
  void operator()(cpu_set_t* mask) const noexcept { CPU_FREE(mask); }
};

// The kernel refuses with EINVAL a mask smaller than its own, whose size it does not tell.
std::vector<int> affinity_of_caller() {
  for (int capacity = CPU_SETSIZE; capacity <= kMaxCpus; capacity *= 2) {
    const std::unique_ptr<cpu_set_t, FreeCpuMask> mask(CPU_ALLOC(static_cast<std::size_t>(capacity)));
    const std::size_t mask_bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(capacity));
    if (!mask) break;
    CPU_ZERO_S(mask_bytes, mask.get());
    if (::sched_getaffinity(0, mask_bytes, mask.get()) != 0) {
      if (errno == EINVAL) continue;
      break;
    }
    std::vector<int> cpus;
    for (int cpu = 0; cpu < capacity; ++cpu) {
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), mask_bytes, mask.get())) cpus.push_back(cpu);
    }
    return cpus;
  }
  return {};
}

}  // namespace

CpuSet usable_cpus() {
  CpuSet set{.cpus = affinity_of_caller(), .quota_cpus = cgroup_cpu_quota()};
  if (set.cpus.empty()) {
    const long online = std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN));
    for (int cpu = 0; cpu < online; ++cpu) set.cpus.push_back(cpu);
  }
  return set;
}

}  // namespace slipring::base
