#include "base/wait.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

#include "base/fiber.h"
#include "base/status.h"

namespace slipring::base {
namespace {

using std::chrono::nanoseconds;

// A first burst without a look at the clock: long enough for a hand-over between any two cores of a machine.
constexpr int kFastSpins = 64;
// Spins between two looks at the clock, which costs as much as a pause or two.
constexpr int kSpinsPerLook = 32;
// A yield that returns within this time has let nobody run.
constexpr nanoseconds kVainYield{1000};

}  // namespace

// Shared futexes (no FUTEX_PRIVATE_FLAG): the word lies in a segment that several processes map.
void SharedFutex::futex_wait(Word& word, std::uint32_t seen, nanoseconds longest) noexcept {
  const auto s = std::chrono::duration_cast<std::chrono::seconds>(longest);
  timespec t{static_cast<time_t>(s.count()), static_cast<long>((longest - s).count())};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &t, nullptr, 0);
}

void SharedFutex::futex_wake_all(Word& word) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

Waiter::Waiter(Doorbell& own, const WaitWindows& windows, Watch& watch) noexcept
    : own_(own), windows_(windows), watch_(watch), fast_spins_(windows.spin_ns > 0 ? kFastSpins : 1) {}

void Waiter::show_counts() noexcept {
  if (shown_ == nullptr) return;
  shown_->yields.set(counts_.yields);
  shown_->sleeps.set(counts_.sleeps);
  shown_->liveness_checks.set(counts_.checks);
}

// Inside an asynchronous operation: whoever progresses it waits, and says when that has become pointless.
Status Waiter::wait_in_fiber(Fiber& fiber, ReadyFn ready, void* argument, const Deadline* deadline) {
  const bool limited = deadline && !deadline->is_by_waiter();
  while (!ready(argument)) {
    if (Status s = watch_.interrupted(); !s) return s;
    if (limited && deadline->passed()) return error(StatusCode::timeout, "nothing came in time");
    fiber.awaits = &own_;
    if (Status s = fiber.suspend(); !s) return s;
  }
  ++fiber.waits_over;
  return {};
}

Status Waiter::wait_slow(ReadyFn ready, void* argument, const Deadline* deadline) {
  ++counts_.slow_waits;
  if (Fiber* fiber = Fiber::current()) return wait_in_fiber(*fiber, ready, argument, deadline);
  const auto begin = Clock::now();
  const Deadline limit = deadline && !deadline->is_by_waiter() ? *deadline
                         : windows_.timeout_ns < 0 ? Deadline::never()
                                                   : Deadline::after(nanoseconds(windows_.timeout_ns));
  const nanoseconds spin(windows_.spin_ns), yield(windows_.yield_ns), period(windows_.liveness_ns);
  nanoseconds next_check = period, last_look{0}, in_vain{0};
  for (;;) {
    const nanoseconds waited = Clock::now() - begin;
    if (ready(argument)) {
      vain_window_.yielding_helped(in_vain);
      show_counts();
      return {};
    }
    if (waited - last_look < kVainYield) in_vain += waited - last_look;
    last_look = waited;
    if (Status s = watch_.interrupted(); !s) return s;
    if (waited >= next_check) {
      ++counts_.checks;
      next_check = waited + period;
      if (Status s = watch_.check_peers(); !s) return s;
    }
    if (limit.passed())
      return error(StatusCode::timeout, "nothing came within {} ms",
                   std::chrono::duration_cast<std::chrono::milliseconds>(waited).count());
    if (waited < spin) {
      for (int i = 0; i < kSpinsPerLook; ++i) {
        if (ready(argument)) return {};
        cpu_relax();
      }
    } else if (waited < spin + yield && (spin.count() != 0 || in_vain < vain_window_.length())) {
      ++counts_.yields;
      ::sched_yield();
    } else {
      // Poison counts too: one that comes between the look above and the announcement would wake nobody.
      const auto pending = [&] { return ready(argument) || !watch_.interrupted(); };
      if (!own_.sleep_unless(pending, std::min(period, limit.left()))) continue;
      ++counts_.sleeps;
      show_counts();
      vain_window_.slept(Clock::now() - begin - waited);
    }
  }
}

}  // namespace slipring::base
