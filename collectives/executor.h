// Executor: runs one rank's part of a plan over channels.
//
//   auto executor = Executor::create(plan, rank, channels, {.chunk_bytes = 65536});
//   const CollectiveCall call = {.in = x, .out = x, .count = n, .dtype = DType::f32, .op = ReduceOp::sum};
//   Status status = (*executor)->run(call, [&](auto&& ready) { return waiter.wait(ready); });
// or, beside other work: start(call), then progress() until done().
//
// Made once per plan and reused: neither start nor progress allocates while all goes well. It copies its
// rank's steps; the channels, borrowed from the provider, must outlive it. One thread at a time. All ranks
// must give the same chunk_bytes, max_message_bytes, window and call (the engine compares fingerprints). The
// input is left intact out of place; in == out is in place; partial overlap is invalid_argument. After a
// failure every call returns it, the output is undefined, and the channels may hold messages that nobody
// wants any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/plan.h"
#include "collectives/plan_walk.h"
#include "collectives/reduce_kernels.h"
#include "slipring/status.h"
#include "slipring/types.h"
#include "transports/channel.h"

namespace slipring::collectives {

/// Where an executor gets its channels, once, when it is made. Asked only for the pairs that the plan uses.
class ChannelProvider {
 public:
  virtual ~ChannelProvider() = default;
  virtual Result<transports::ChannelProducer*> producer(int peer, int lane) = 0;
  virtual Result<transports::ChannelConsumer*> consumer(int peer, int lane) = 0;
};

struct ExecutorOptions {
  std::size_t chunk_bytes = 64 * 1024;
  /// Largest message that the channels of every rank can hold. chunk_bytes is cut to it, and because all
  /// ranks take it from the same configuration, all cut alike. A channel that holds less is an error, never a
  /// smaller chunk on one side.
  std::size_t max_message_bytes = SIZE_MAX;
  int window = 4;
  ReduceFn (*kernel)(DType, ReduceOp) noexcept = &reduce_kernel;
  /// Called with 0, 1, 2, ... as each piece of an operation is about to be received or copied on this rank; how
  /// many there are depends on the plan and the count alone, never on timing.
  std::function<void(std::uint64_t)> on_piece;
};

/// Where one block of an operation that moves blocks lies on this rank. Equal sizes on every rank that handles it; a null
/// pointer where the rank has no such block. What has no place in the user's output lies in scratch of the caller's.
struct BlockPlace {
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;  ///< elements
};

struct CollectiveCall {
  const void* in = nullptr;  ///< may be null where the plan reads no input (a broadcast off the root)
  void* out = nullptr;
  std::size_t count = 0;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  /// One per block of the plan, in operations that move blocks; in, out and count are not used then. Valid until done.
  std::span<const BlockPlace> blocks = {};
};

class Executor {
 public:
  /// invalid_argument if an option can never work; else what the provider says.
  static Result<std::unique_ptr<Executor>> create(const Plan& plan, int rank, ChannelProvider& channels,
                                                  const ExecutorOptions& options);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  Status start(const CollectiveCall& call);
  /// Moves what can be moved now. Returns the number of chunks sent and received: 0 means that nothing could.
  Result<std::size_t> progress();
  bool done() const noexcept { return unfinished_lanes_ == 0; }

  /// start, then progress until done. wait(ready) is called when nothing moved; it returns ok once ready()
  /// was true (ready tries to progress), or why it gives up.
  template <class Wait>
  Status run(const CollectiveCall& call, Wait&& wait);

  /// What keeps it from moving, e.g. "lane 0: no room for step 0 (send block 0 to rank 1) chunk 1".
  std::string describe_wait() const;
  /// The peers it waits for, one entry per waiting cursor.
  std::vector<int> awaited_peers() const;
  std::size_t chunk_bytes() const noexcept { return chunk_bytes_; }

 private:
  enum class Move : std::uint8_t { moved, blocked, failed };

  struct Lane {
    explicit Lane(const std::vector<Step>& list) : steps(list), own(steps) {}
    const std::vector<Step> steps;
    const CursorSteps own;
    std::vector<transports::ChannelProducer*> producers;  ///< per step, null where it does not send
    std::vector<transports::ChannelConsumer*> consumers;  ///< per step, null where it does not receive
    std::vector<bool> only_passed_on;                     ///< per step, see is_only_passed_on
    Cursor sender, receiver;
    bool finished = true;
  };

  /// One chunk in the user's buffers.
  struct Piece {
    const std::byte* in;
    std::byte* out;
    std::size_t elements;
    std::size_t bytes;
  };

  Executor(const Plan& plan, int rank, const ExecutorOptions& options);
  Status check_call(const CollectiveCall& call) const;
  ChunkGrid grid_of_lane(int lane) const noexcept;
  Status connect(Lane& lane, int number, ChannelProvider& channels);
  Piece piece(const Cursor& cursor) const noexcept;
  Move send_next(Lane& lane);
  Move receive_next(Lane& lane);
  bool loan_for_next_send(Lane& lane, const Position& at, std::size_t bytes, std::byte*& slot);
  void reduce(const Step& step, const Piece& here, const void* message, void* dst, void* dst2) const;
  Move fail(Status cause, const Lane& lane, const Cursor& cursor);

  const Operation operation_;
  const std::string algorithm_;
  const int ranks_;
  const int rank_;
  const int blocks_;
  const int window_;
  const std::size_t chunk_bytes_;
  ReduceFn (*const kernel_of_)(DType, ReduceOp) noexcept;
  const std::function<void(std::uint64_t)> on_piece_;
  std::vector<std::unique_ptr<Lane>> lanes_;

  CollectiveCall call_;
  std::vector<std::size_t> block_counts_;  ///< of call_.blocks
  ReduceFn kernel_ = nullptr;
  int unfinished_lanes_ = 0;
  std::uint64_t pieces_ = 0;
  Status failure_;
};

template <class Wait>
Status Executor::run(const CollectiveCall& call, Wait&& wait) {
  Status status = start(call);
  // A failure also ends the waiting; progress() below then returns it.
  const auto ready = [this] {
    const Result<std::size_t> moved = progress();
    return !moved.is_ok() || moved.value() > 0 || done();
  };
  while (status.is_ok() && !done()) {
    Result<std::size_t> moved = progress();
    if (!moved.is_ok()) {
      status = std::move(moved).status();
    } else if (moved.value() == 0 && !done()) {
      status = wait(ready);
    }
  }
  return status;
}

/// Whether what `step` writes is read by exactly one send, and then overwritten by a receive: if it can be
/// written straight into that send's slot, it need not be stored in the output at all.
bool is_only_passed_on(const std::vector<Step>& steps, std::size_t step);

}  // namespace slipring::collectives
