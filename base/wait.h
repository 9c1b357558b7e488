// Waiting: spin with `pause`, then sched_yield, then sleep on a futex, each for a bounded window.
//
// A Waiter is one thread's way of waiting at its rank's doorbell (base/doorbell.h): it knows the windows, how
// long a wait may take, and whom to ask (Watch) whether waiting still makes sense. A Waiter belongs to one
// thread. Waiting fails with the Watch's Status (poison, a dead peer) or with timeout; it never ends silently.
// A sleeping waiter burns no CPU but one check per liveness period.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <type_traits>

#include "base/counters.h"
#include "base/deadline.h"
#include "base/doorbell.h"
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

/// How long a rank that shares its CPU yields in vain before it sleeps. sched_yield hands the CPU only to tasks of the
/// same scheduling group: between two containers, or two login sessions, it does nothing until the time slice ends
/// milliseconds later, while a rank that sleeps lets the other one run at once. But where the awaited rank works on
/// another CPU, sleeping only adds the wake-up. The window shrinks each time that a short sleep was what helped.
class VainWindow {
 public:
  std::chrono::nanoseconds length() const noexcept { return length_; }
  void slept(std::chrono::nanoseconds span) noexcept {
    if (span < std::max(kShortSleep, 4 * length_)) length_ = std::max(length_ / 2, kShortest);
  }
  void yielding_helped(std::chrono::nanoseconds in_vain) noexcept {
    if (in_vain > length_ / 2) length_ = std::min(length_ + length_ / 8, kLongest);
  }

 private:
  static constexpr std::chrono::nanoseconds kShortSleep{60'000}, kShortest{4'000}, kLongest{200'000};
  std::chrono::nanoseconds length_ = kLongest;
};

class Waiter {
 public:
  Waiter(Doorbell& own, const WaitWindows& windows, Watch& watch) noexcept;

  /// Returns once ready() is true, or why it never will be. `deadline` null or by_waiter(): windows.timeout_ns from now.
  template <class Ready>
  Status wait(Ready&& ready, const Deadline* deadline = nullptr) {
    for (int i = 0; i < fast_spins_; ++i) {
      if (ready()) return {};
      cpu_relax();
    }
    using Callable = std::remove_reference_t<Ready>;
    return wait_slow([](void* r) { return (*static_cast<Callable*>(r))(); },
                     const_cast<void*>(static_cast<const void*>(&ready)), deadline);
  }

  const WaitCounts& counts() const noexcept { return counts_; }
  /// From now on the counts also show in these counters, which must outlive the Waiter.
  void show_counts_in(CounterBlock& counters) noexcept { shown_ = &counters; }
  const WaitWindows& windows() const noexcept { return windows_; }
  Watch& watch() noexcept { return watch_; }
  Doorbell& doorbell() noexcept { return own_; }

 private:
  using ReadyFn = bool (*)(void*);
  Status wait_in_fiber(class Fiber& fiber, ReadyFn ready, void* argument, const Deadline* deadline);
  [[gnu::noinline]] Status wait_slow(ReadyFn ready, void* argument, const Deadline* deadline);

  Doorbell& own_;
  WaitWindows windows_;
  Watch& watch_;
  void show_counts() noexcept;

  WaitCounts counts_;
  CounterBlock* shown_ = nullptr;
  VainWindow vain_window_;
  int fast_spins_;
};

}  // namespace slipring::base
