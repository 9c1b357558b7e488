// How a public call reaches the communicator behind it: checked, on the caller's stack, or in its turn among the
// asynchronous operations in flight.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "base/status.h"
#include "engine/communicator_impl.h"
#include "engine/raise.h"

namespace slipring::engine {

#if !defined(NDEBUG) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kChecksThreads = true;
#else
inline constexpr bool kChecksThreads = false;
#endif

[[noreturn, gnu::cold]] void refuse_empty();
[[noreturn, gnu::cold]] void refuse_device(Device device);

inline CommunicatorImpl& use(const std::shared_ptr<CommunicatorImpl>& impl) {
  if (!impl) [[unlikely]] refuse_empty();
  return *impl;
}

inline const void* host(ConstBuffer buffer) {
  if (buffer.device.kind != DeviceKind::host) [[unlikely]] refuse_device(buffer.device);
  return buffer.data;
}
inline void* host(Buffer buffer) {
  if (buffer.device.kind != DeviceKind::host) [[unlikely]] refuse_device(buffer.device);
  return buffer.data;
}

/// While a thread is inside of a communicator, another one is refused. Nothing in release builds.
class Entered {
 public:
  explicit Entered(CommunicatorImpl& impl) : word_(impl.thread_inside()) {
    if constexpr (kChecksThreads) enter();
  }
  ~Entered() {
    if constexpr (kChecksThreads) leave();
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  void enter();
  void leave() noexcept;
  std::atomic<int>& word_;
  bool outermost_ = false;
};

/// The operation's own status; on the lane if anything is in flight.
template <class Body>
void run(const std::shared_ptr<CommunicatorImpl>& impl, LaneKey lane, Body&& body) {
  CommunicatorImpl& c = use(impl);
  const Entered entered(c);
  if (!c.busy()) [[likely]] return raise_unless_ok(body(c));
  raise_unless_ok(c.check_process());
  const WorkPtr operation = c.lanes().start(lane, [&](WorkState&) { return body(c); }, impl);
  raise_unless_ok(c.lanes().wait(*operation, base::Deadline::never()));
  raise_unless_ok(operation->result);
}

/// As run, for a body that makes something: body(c) is a Result.
template <class Body>
auto make(const std::shared_ptr<CommunicatorImpl>& impl, Body&& body) {
  decltype(body(*impl)) made = Status(StatusCode::closed, "");
  run(impl, LaneKey{}, [&](CommunicatorImpl& c) {
    made = body(c);
    return made ? Status() : made.status();
  });
  return std::move(made).value();
}

}  // namespace slipring::engine
