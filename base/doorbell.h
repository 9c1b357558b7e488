// Doorbell: where one rank sleeps and where others wake it. It lies in a segment and outlives every waiter.
//
// | field    | writers                                 | readers                          | cache line     |
// | -------- | --------------------------------------- | -------------------------------- | -------------- |
// | sleepers | its rank's waiters                      | whoever publishes to the rank    | the doorbell's |
// | rings    | whoever wakes the rank                  | its rank's waiters, the kernel   | the doorbell's |
//
// Both change only when somebody sleeps, so that a publisher's look at the line is a cache hit. Edges
// (docs/memory_model.md): WAKE, the full barrier between "publish" and "does anybody sleep?" and between
// "I sleep" and the last look; RUNG, the count that the kernel compares. Any thread of any process may ring;
// nothing fails. Policy supplies the atomics and the futex, so that this header also runs under Relacy.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/asymmetric_fence.h"

namespace slipring::base {

template <class Policy>
struct alignas(64) BasicDoorbell {
  typename Policy::template Atomic<std::uint32_t> sleepers;
  typename Policy::template Atomic<std::uint32_t> rings;

  /// Called after publishing something that this doorbell's rank may await. Free when nobody sleeps.
  void ring() noexcept {
    if (Policy::fence_then_load(sleepers) != 0) [[unlikely]] wake();  // WAKE: publish, barrier, look for sleepers
  }

  /// Wakes without looking whether anybody sleeps; always costs a system call. For poison.
  [[gnu::noinline]] void wake() noexcept {
    Policy::add_release(rings);  // RUNG: what was published before is visible to whoever reads the new count
    Policy::futex_wake_all(rings);
  }

  /// Sleeps until rung, at most `longest`, unless pending() is true. False if it did not sleep. May return early.
  template <class Pending, class Span>
  bool sleep_unless(Pending&& pending, Span longest) {
    // RUNG: a ring from here on changes what the kernel compares. relaxed: the barrier below makes it an acquire.
    const std::uint32_t seen = Policy::load_relaxed(rings);
    Policy::add_then_fence(sleepers);  // WAKE: announce, barrier, look once more
    const bool sleeps = !pending();
    if (sleeps) Policy::futex_wait(rings, seen, longest);
    Policy::subtract_relaxed(sleepers);  // relaxed: whoever still sees the sleeper rings once in vain
    return sleeps;
  }
};

/// Production atomics and a futex that processes share.
struct SharedFutex {
  template <class T>
  using Atomic = std::atomic<T>;
  using Word = std::atomic<std::uint32_t>;

  static std::uint32_t load_relaxed(const Word& w) noexcept { return w.load(std::memory_order_relaxed); }
  static void add_release(Word& w) noexcept { w.fetch_add(1, std::memory_order_release); }
  static void subtract_relaxed(Word& w) noexcept { w.fetch_sub(1, std::memory_order_relaxed); }
  static std::uint32_t fence_then_load(Word& sleepers) noexcept { return base::fence_then_load(sleepers); }
  static void add_then_fence(Word& sleepers) noexcept { base::add_then_fence(sleepers); }
  static void futex_wait(Word& word, std::uint32_t seen, std::chrono::nanoseconds longest) noexcept;
  static void futex_wake_all(Word& word) noexcept;
};

struct Doorbell : BasicDoorbell<SharedFutex> {};

}  // namespace slipring::base
