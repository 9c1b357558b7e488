// Waiting: spin with `pause`, then sched_yield, then sleep on a futex, each for a bounded window.
//
// A Doorbell is where one rank sleeps and where others wake it; it lies in a segment and outlives every waiter.
// A Waiter is one thread's way of waiting at its rank's doorbell: it knows the windows, how long a wait may
// take, and whom to ask (Watch) whether waiting still makes sense. Doorbells may be rung from any thread or
// process; a Waiter belongs to one thread. Waiting fails with the Watch's Status (poison, a dead peer) or
// with timeout; it never ends silently. A sleeping waiter burns no CPU but one check per liveness period.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/asymmetric_fence.h"
#include "base/deadline.h"
#include "slipring/status.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace slipring::base {

inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Field table:   sleepers  written by its rank's waiters (fetch_add/sub), read by whoever publishes to it
///                rings     written by whoever rings (fetch_add), read by its rank's waiters and the kernel
/// Both change only when somebody sleeps, so the line stays shared and a publisher's look at it is a cache hit.
struct alignas(64) Doorbell {
  std::atomic<std::uint32_t> sleepers{0};
  std::atomic<std::uint32_t> rings{0};

  /// Called after publishing something that this doorbell's rank may await. Free when nobody sleeps.
  void ring() noexcept {
    if (fence_then_load(sleepers) != 0) [[unlikely]] wake();  // WAKE: pairs with heavy_fence in Waiter::sleep
  }
  void wake() noexcept;
};

/// Asked while waiting. Both calls may be frequent; they must not block.
class Watch {
 public:
  virtual ~Watch() = default;
  /// Not ok when waiting is pointless: poisoned, aborted, closed. Costs a load.
  virtual Status interrupted() = 0;
  /// Looks whether the peers still live; called once per liveness period. May poison.
  virtual Status check_peers() = 0;
};

struct WaitWindows {
  std::int64_t spin_ns = 100'000;
  std::int64_t yield_ns = 1'000'000;
  std::int64_t liveness_ns = 20'000'000;
  std::int64_t timeout_ns = 60'000'000'000;  ///< longest wait without progress; < 0: for ever
};

/// Plain counts kept by one waiter; read by the same thread (exported by base/counters.h).
struct WaitCounts {
  std::uint64_t slow_waits = 0, yields = 0, sleeps = 0, checks = 0;
};

class Waiter {
 public:
  Waiter(Doorbell& own, const WaitWindows& windows, Watch& watch) noexcept;

  /// Returns once ready() is true, or why it never will be. `deadline` null: windows.timeout_ns from now.
  template <class Ready>
  Status wait(Ready&& ready, const Deadline* deadline = nullptr) {
    for (int i = 0; i < fast_spins_; ++i) {
      if (ready()) return {};
      cpu_relax();
    }
    return wait_slow([](void* r) { return (*static_cast<std::remove_reference_t<Ready>*>(r))(); }, &ready, deadline);
  }

  const WaitCounts& counts() const noexcept { return counts_; }
  const WaitWindows& windows() const noexcept { return windows_; }
  Watch& watch() noexcept { return watch_; }
  Doorbell& doorbell() noexcept { return own_; }

 private:
  using ReadyFn = bool (*)(void*);
  [[gnu::noinline]] Status wait_slow(ReadyFn ready, void* argument, const Deadline* deadline);
  void sleep(ReadyFn ready, void* argument, std::chrono::nanoseconds longest);

  Doorbell& own_;
  WaitWindows windows_;
  Watch& watch_;
  WaitCounts counts_;
  int fast_spins_;
};

}  // namespace slipring::base
