// The channel contract that every transport fulfils: one direction, one producer, one consumer, messages in
// order, each at most max_loan_bytes. Two move-free endpoint objects, each used by one thread at a time.
//
// The try_ calls never wait and never allocate. would_block means "nothing now"; any other bad Status is final
// for the channel: closed (in good order), or the poison of the job (peer_lost, aborted, timeout, corrupt).
// A span stays valid until publish() / release(). Waiting belongs to the caller (base/wait.h), because a
// caller may wait on many channels at once.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/deadline.h"
#include "slipring/status.h"

namespace slipring::transports {

class ChannelProducer {
 public:
  virtual ~ChannelProducer() = default;
  virtual std::size_t max_loan_bytes() const noexcept = 0;
  /// On ok, `slot` is room for one message of exactly `bytes` (0 is allowed), at least 16-byte aligned. One loan at a time;
  /// a second try_loan before publish replaces the first, which was never visible.
  virtual Status try_loan(std::size_t bytes, std::span<std::byte>& slot) = 0;
  /// Makes the loaned message visible and wakes the consumer if it sleeps.
  virtual void publish() = 0;
  /// try_loan that waits until there is room, the channel fails, or the deadline passes.
  virtual Status loan(std::size_t bytes, std::span<std::byte>& slot, const base::Deadline& deadline) = 0;
  virtual void close() noexcept = 0;
  virtual std::string_view transport() const noexcept = 0;
  virtual int peer() const noexcept = 0;
};

class ChannelConsumer {
 public:
  virtual ~ChannelConsumer() = default;
  /// On ok, `message` is the oldest message not yet released, read in place.
  virtual Status try_peek(std::span<const std::byte>& message) = 0;
  /// Frees the peeked message's slot and wakes the producer if it sleeps for room.
  virtual void release() = 0;
  virtual Status peek(std::span<const std::byte>& message, const base::Deadline& deadline) = 0;
  virtual void close() noexcept = 0;
  virtual std::string_view transport() const noexcept = 0;
  virtual int peer() const noexcept = 0;
};

}  // namespace slipring::transports
