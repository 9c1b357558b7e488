// The full barrier of the sleep/wake protocol, split unevenly: the publisher's half is free on the hot path,
// the sleeper's half makes the kernel run a barrier on every CPU that executes a registered process
// (membarrier(2), global expedited). Where membarrier is missing or denied on any rank, publishers run a real
// fence instead; both halves together are always a full barrier, whoever chose what.
//
// Why split: a fence between "store the flag" and "does anybody sleep?" waits for the store to reach the other
// core, which costs as much as the hand-over itself (BM_publish_with_fence in bench/micro/wait_bench.cc).
// Thread-safe; never fails.
#pragma once

#include <atomic>
#include <cstdint>

namespace slipring::base {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

/// Registers this process for membarrier. False if the kernel or a seccomp filter refuses.
bool register_membarrier() noexcept;

/// Until every rank of every job in this process has reported register_membarrier() == true, publishers fence.
/// `all_registered` false is sticky: one rank that cannot take part is enough. Called once per job at start-up.
void agree_on_membarrier(bool all_registered) noexcept;

namespace detail {
enum class FenceMode : int { undecided, asymmetric, symmetric };
// Written by agree_on_membarrier before the job's first operation; read by publishers of the same process.
extern std::atomic<FenceMode> fence_mode;
}  // namespace detail

/// Publisher's half (edge WAKE): orders its earlier store before its later load of `sleepers`, and returns it.
inline std::uint32_t fence_then_load(std::atomic<std::uint32_t>& sleepers) noexcept {
  if constexpr (kThreadSanitizer) {
    return sleepers.fetch_add(0, std::memory_order_seq_cst);  // WAKE: fences are invisible to ThreadSanitizer
  } else {
    if (detail::fence_mode.load(std::memory_order_relaxed) == detail::FenceMode::asymmetric) [[likely]] {
      // WAKE: the sleeper's add_then_fence has the kernel run the barrier here.
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_thread_fence(std::memory_order_seq_cst);  // WAKE: with the fence in add_then_fence
    }
    return sleepers.load(std::memory_order_relaxed);  // relaxed: ordered by the fence above (WAKE)
  }
}

/// Sleeper's half (edge WAKE): adds one to `sleepers` and orders that before the sleeper's last look at what it
/// awaits. Costs a system call, which a rank that is about to sleep can spare.
void add_then_fence(std::atomic<std::uint32_t>& sleepers) noexcept;

}  // namespace slipring::base
