// Channel endpoints: one direction, one producer, one consumer.
//
//   std::span<std::byte> slot = producer.loan(bytes);  // room in the channel, contiguous, 16-byte aligned
//   fill(slot);
//   producer.publish();                                // the consumer can see it from here on
//
//   std::span<const std::byte> message = consumer.peek();  // oldest message, read in place
//   use(message);
//   consumer.release();                                // the room is free again; `message` is dangling
//
// write() and read() are the copying form, for messages of any size and buffers of the caller's own.
//
// Wrong: publish() without a loan, release() without a peek(), keeping a span past publish() or release(),
// using one endpoint from two threads at once (two endpoints of one channel are for two threads).
// loan and peek wait up to the channel's timeout and throw Error: timeout, peer_lost, aborted, or closed once
// the other side has closed and, for the consumer, everything published has been consumed.
#ifndef SLIPRING_CHANNEL_H
#define SLIPRING_CHANNEL_H

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include "slipring/export.h"

namespace slipring {

class SLIPRING_API Producer {
 public:
  Producer() noexcept;
  Producer(Producer&&) noexcept;
  Producer& operator=(Producer&&) noexcept;
  ~Producer();  ///< closes

  /// Largest message that one loan can hold, in bytes.
  std::size_t max_loan_bytes() const noexcept;
  std::span<std::byte> loan(std::size_t bytes);
  /// As loan, but nullopt instead of waiting when there is no room.
  std::optional<std::span<std::byte>> try_loan(std::size_t bytes);
  void publish();
  /// Copies a message of any size into the channel, in pieces; the consumer must read() the same size.
  void write(const void* data, std::size_t bytes);
  void close() noexcept;

 private:
  friend class Communicator;
  struct Impl;
  explicit Producer(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

class SLIPRING_API Consumer {
 public:
  Consumer() noexcept;
  Consumer(Consumer&&) noexcept;
  Consumer& operator=(Consumer&&) noexcept;
  ~Consumer();  ///< closes

  std::span<const std::byte> peek();
  /// As peek, but nullopt instead of waiting when there is no message.
  std::optional<std::span<const std::byte>> try_peek();
  void release();
  /// Copies out a message that the producer wrote with write(); a different size is Error(mismatch).
  void read(void* data, std::size_t bytes);
  void close() noexcept;

 private:
  friend class Communicator;
  struct Impl;
  explicit Consumer(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slipring

#endif
