// Deadline: a point on the monotonic clock, or never. Cheap to copy; reading the clock costs tens of
// nanoseconds here, so hot paths construct and test deadlines only once they have begun to wait.
#pragma once

#include <chrono>
#include <cstdint>

namespace slipring::base {

using Clock = std::chrono::steady_clock;

class Deadline {
 public:
  /// Not fixed yet: whoever waits allows its own longest wait, counted from where the wait becomes slow. For hot
  /// paths, which usually do not wait and should not read the clock in case they might.
  static Deadline by_waiter() noexcept { return Deadline(Clock::time_point::min()); }
  static Deadline never() noexcept { return Deadline(Clock::time_point::max()); }
  static Deadline after(std::chrono::nanoseconds span) noexcept {
    const auto now = Clock::now();
    return Deadline(span > Clock::time_point::max() - now ? Clock::time_point::max() : now + span);
  }
  static Deadline after_ms(std::int64_t ms) noexcept {
    return ms < 0 ? never() : after(std::chrono::milliseconds(ms));
  }

  bool is_by_waiter() const noexcept { return at_ == Clock::time_point::min(); }
  bool is_never() const noexcept { return at_ == Clock::time_point::max(); }
  bool passed() const noexcept { return !is_never() && Clock::now() >= at_; }
  /// Time left, never below zero.
  std::chrono::nanoseconds left() const noexcept {
    if (is_never()) return std::chrono::nanoseconds::max();
    const auto now = Clock::now();
    return now >= at_ ? std::chrono::nanoseconds(0) : at_ - now;
  }
  /// Time left in whole milliseconds, rounded up and capped at `cap_ms`, as poll() wants it.
  int left_ms(int cap_ms) const noexcept {
    if (is_never()) return cap_ms;
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left()).count();
    return ms > cap_ms ? cap_ms : static_cast<int>(ms);
  }

 private:
  explicit Deadline(Clock::time_point at) noexcept : at_(at) {}
  Clock::time_point at_;
};

}  // namespace slipring::base
