#include "base/asymmetric_fence.h"

#include <linux/membarrier.h>
#include "base/syscalls.h"

namespace slipring::base {

namespace detail {
std::atomic<FenceMode> fence_mode{FenceMode::undecided};
}

namespace {
int membarrier(int command) noexcept { return syscalls().membarrier(command, 0, 0); }
}  // namespace

bool register_membarrier() noexcept { return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0; }

void agree_on_membarrier(bool all_registered) noexcept {
  using detail::FenceMode;
  // relaxed: the call comes before the job's first operation, and whatever hands the job to other threads orders
  // it. Symmetric wins over everything and is never left again.
  if (!all_registered) {
    detail::fence_mode.store(FenceMode::symmetric, std::memory_order_relaxed);
    return;
  }
  FenceMode expected = FenceMode::undecided;
  detail::fence_mode.compare_exchange_strong(expected, FenceMode::asymmetric, std::memory_order_relaxed);
}

void add_then_fence(std::atomic<std::uint32_t>& sleepers) noexcept {
  if constexpr (kThreadSanitizer) {
    sleepers.fetch_add(1, std::memory_order_seq_cst);  // WAKE: fences are invisible to ThreadSanitizer
  } else {
    sleepers.fetch_add(1, std::memory_order_relaxed);  // relaxed: ordered by the fence below
    // WAKE: with the publisher's fence_then_load.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    // Fails only where register_membarrier failed too, and then every publisher fences for itself.
    membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
  }
}

}  // namespace slipring::base
