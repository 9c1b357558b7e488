// Fiber: a body of code with a stack of its own that can stop in the middle and go on later.
//
//   Fiber fiber([&] { ... Fiber::current()->suspend(); ... });
//   fiber.resume();          // runs the body until it suspends or ends
//   if (!fiber.finished()) fiber.resume();
//
// This is how blocking code becomes an asynchronous operation without a second version of it: where it would wait
// (base/wait.h), it suspends, and whoever progresses the operation resumes it. One thread at a time; a suspended fiber may
// be resumed by another thread than before. It must have finished, or never begun, when it is destroyed. The body must not
// throw. Switching is Boost.Context's; stacks are mapped with a guard page, and touched pages only are resident.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "slipring/status.h"

namespace slipring::base {

class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The fiber on which the caller runs; null on a thread's own stack.
  static Fiber* current() noexcept;

  /// `news` is what suspend() returns inside.
  void resume(Status news = {});
  bool finished() const noexcept;
  /// Inside only. Not ok: why waiting makes no sense any more.
  Status suspend();

  /// Set by a wait before it suspends: what will wake it. Null: it only wants to be resumed.
  const void* awaits = nullptr;
  /// Counts waits that are over: what has advanced.
  std::uint64_t waits_over = 0;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace slipring::base
