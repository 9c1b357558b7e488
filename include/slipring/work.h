// Work: one asynchronous operation of a communicator.
//
//   slipring::Work sum = comm.iall_reduce(x, x, n, slipring::DType::f32, slipring::ReduceOp::sum);
//   compute_something_else();                 // sum.test() now and then lets it advance, unless progress = "thread"
//   sum.wait();
//
// Buffers belong to the operation until it has finished: not to be touched, except that inputs may be read. Collectives of
// one communicator run one after the other in the order in which they were started, blocking ones included; messages to, and
// messages from, one peer keep their order, and everything else goes on beside it. Dropping a Work does not end its
// operation: later calls on the communicator, and close(), finish it.
// Thread-safety: one thread at a time per Work. With progress = "caller" (the default) operations advance in test, wait,
// every asynchronous call and, while any are in flight, every blocking one; all of these belong to the communicator's
// thread. With progress = "thread" a thread of the communicator's own runs them, from the first one on; test, wait
// and cancel may then be called from any thread.
// Failure: as the blocking call's, thrown by test or wait, each time they are called. An operation times out only while
// somebody waits for one of the communicator's; a peer's death is found by polling with test as well.
#ifndef SLIPRING_WORK_H
#define SLIPRING_WORK_H

#include <chrono>
#include <memory>

#include "slipring/export.h"

namespace slipring {

namespace engine {
struct WorkState;
}

class SLIPRING_API Work {
 public:
  Work() noexcept;  ///< of nothing: finished
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ~Work();

  /// Whether it has finished. Lets operations advance; never waits.
  bool test();
  /// Until it has finished; as long as a blocking call would wait (op.timeout_ms without progress from here on).
  void wait();
  /// As wait, but false, and the operation goes on, when `longest` has passed.
  bool wait_for(std::chrono::nanoseconds longest);
  /// A message of which nothing has moved yet is taken back, and wait() throws Error(aborted). Anything else cannot be
  /// undone: the communicator is aborted. No effect on what has finished.
  void cancel();

 private:
  friend class Communicator;
  explicit Work(std::shared_ptr<engine::WorkState> operation) noexcept;
  std::shared_ptr<engine::WorkState> operation_;
};

}  // namespace slipring

#endif
