// The CPUs that the calling thread may run on. Only reads: the engine never changes anybody's affinity. Read
// afresh at each call; any thread. Never fails: where the kernel does not say, every online CPU counts.
#pragma once

#include <optional>
#include <vector>

namespace slipring::base {

struct CpuSet {
  std::vector<int> cpus;  ///< ascending, never empty
  /// CPUs' worth of time that the control group grants, if limited. Information only: a quota of 1.5 still
  /// runs ranks on all of `cpus` at the same time.
  std::optional<double> quota_cpus;

  int count() const noexcept { return static_cast<int>(cpus.size()); }
};

CpuSet usable_cpus();

}  // namespace slipring::base
