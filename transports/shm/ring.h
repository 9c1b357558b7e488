// The ring under every shared-memory channel: single producer, single consumer, no locks, no system calls.
//
// A ring has `slots` descriptors, one cache line each, and a payload area. A message of up to kInlineBytes
// lies in its descriptor, beside the sequence word: one line passes from core to core. A larger one takes a
// contiguous piece of the payload area. Positions are 64-bit counters that start at a chosen value.
//
// | field                 | only writer | reader   | cache line              |
// | --------------------- | ----------- | -------- | ----------------------- |
// | Descriptor::sequence  | producer    | consumer | the descriptor's        |
// | Descriptor::meta      | producer    | consumer | the descriptor's        |
// | Descriptor::payload   | producer    | consumer | the descriptor's        |
// | RingIndex::released   | consumer    | producer | consumer's              |
// | RingIndex::consumer_closed | consumer | producer | consumer's (written once) |
// | RingIndex::producer_closed | producer | consumer | producer's (written once) |
//
// Edges (docs/memory_model.md): SLOT_READY sequence, SLOT_FREE released, PRODUCER_ENDED, CONSUMER_ENDED.
// What is read from the segment is untrusted: `released` and `meta` are checked where they are read, and a
// peer that writes nonsense makes the channel fail with corrupt, never touch memory outside of the ring.
// RingProducer and RingConsumer are private to one thread each. Policy supplies the atomics, so that the same
// header runs under Relacy.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace slipring::transports {

inline constexpr std::size_t kLineBytes = 64;
inline constexpr std::size_t kInlineBytes = 48;

/// Production atomics. A model replaces them by its own with the same members.
struct StdAtomics {
  template <class T>
  using Atomic = std::atomic<T>;
  /// Data that an edge hands over. Atomic here only so that what a hostile peer may rewrite at any time is
  /// fetched once, never re-read between its check and its use; the edge orders it.
  template <class T>
  using Guarded = std::atomic<T>;
  template <class T>
  static T load_acquire(const Atomic<T>& a) noexcept { return a.load(std::memory_order_acquire); }
  template <class T>
  static T load_relaxed(const Atomic<T>& a) noexcept { return a.load(std::memory_order_relaxed); }
  template <class T>
  static void store_release(Atomic<T>& a, T value) noexcept { a.store(value, std::memory_order_release); }
  template <class T>
  static T read(const Guarded<T>& g) noexcept { return g.load(std::memory_order_relaxed); }
  template <class T>
  static void write(Guarded<T>& g, T value) noexcept { g.store(value, std::memory_order_relaxed); }
};

template <class Policy>
struct alignas(kLineBytes) RingDescriptor {
  typename Policy::template Atomic<std::uint64_t> sequence;  // position + 1 once the message is there
  typename Policy::template Guarded<std::uint64_t> meta;     // payload offset in lines << 32 | bytes
  std::byte payload[kInlineBytes];
};

template <class Policy>
struct RingIndex {
  alignas(kLineBytes) typename Policy::template Atomic<std::uint64_t> released;
  typename Policy::template Atomic<std::uint32_t> consumer_closed;
  alignas(kLineBytes) typename Policy::template Atomic<std::uint32_t> producer_closed;
};

/// Sizes of a ring; equal on both sides. `slots` is a power of two, payload_bytes a multiple of 2 lines.
struct RingShape {
  std::uint32_t slots = 0;
  std::uint32_t payload_bytes = 0;
  std::uint64_t start = 0;  ///< where the counters begin

  /// Half of the area: while one message of this size is read, the next can be written.
  std::size_t max_message_bytes() const noexcept {
    return payload_bytes / 2 > kInlineBytes ? payload_bytes / 2 : kInlineBytes;
  }
  bool valid() const noexcept {
    return std::has_single_bit(slots) && payload_bytes % (2 * kLineBytes) == 0 && payload_bytes < (1u << 31);
  }
};

/// What every descriptor's sequence word holds before its first message: no position + 1 of the first lap, also
/// where the counters wrap.
inline std::uint64_t first_sequence(const RingShape& shape) noexcept { return shape.start; }

enum class RingState { ok, would_block, closed, corrupt, too_large };

/// Where a message lies: in its descriptor (index) or in the payload area (offset).
struct RingMessage {
  std::uint32_t bytes = 0;
  std::uint32_t descriptor = 0;      ///< index of the descriptor
  std::uint32_t payload_offset = 0;  ///< valid if bytes > kInlineBytes
  bool is_inline() const noexcept { return bytes <= kInlineBytes; }
};

template <class Policy>
class RingProducer {
 public:
  using Index = RingIndex<Policy>;
  using Descriptor = RingDescriptor<Policy>;

  RingProducer(Index& index, Descriptor* descriptors, const RingShape& shape)
      : index_(index), descriptors_(descriptors), shape_(shape), position_(shape.start), released_(shape.start),
        ends_(shape.slots, 0) {}
  RingProducer(const RingProducer&) = delete;
  RingProducer& operator=(const RingProducer&) = delete;
  RingProducer(RingProducer&&) noexcept = default;

  /// Finds room for one message. Not visible to anybody before publish(); a second loan replaces the first.
  RingState try_loan(std::size_t bytes, RingMessage& message) {
    if (bytes > shape_.max_message_bytes()) [[unlikely]] return RingState::too_large;
    const std::uint32_t slot = static_cast<std::uint32_t>(position_) & (shape_.slots - 1);
    if (position_ - released_ >= shape_.slots) {
      if (RingState s = refresh(); s != RingState::ok) return s;
      if (position_ - released_ >= shape_.slots) return blocked();
    }
    message.bytes = static_cast<std::uint32_t>(bytes);
    message.descriptor = slot;
    if (bytes > kInlineBytes) {
      if (RingState s = find_payload(bytes, message); s != RingState::ok) return s;
    } else {
      loan_end_ = payload_end_;
    }
    return RingState::ok;
  }

  void publish(const RingMessage& message) {
    Descriptor& d = descriptors_[message.descriptor];
    payload_end_ = loan_end_;
    ends_[message.descriptor] = payload_end_;
    Policy::write(d.meta, std::uint64_t{message.payload_offset / kLineBytes} << 32 | message.bytes);
    ++position_;
    Policy::store_release(d.sequence, position_);  // SLOT_READY: meta and payload before the number
  }

  void close() noexcept {
    Policy::store_release(index_.producer_closed, std::uint32_t{1});  // PRODUCER_ENDED: after the last publish
  }
  bool consumer_closed() const noexcept {
    return Policy::load_acquire(index_.consumer_closed) != 0;  // CONSUMER_ENDED
  }
  std::uint64_t position() const noexcept { return position_; }
  /// True when the consumer has released everything that was published.
  bool drained() {
    return refresh() == RingState::ok && released_ == position_;
  }

 private:
  RingState blocked() const noexcept { return consumer_closed() ? RingState::closed : RingState::would_block; }

  RingState refresh() {
    const std::uint64_t seen = Policy::load_acquire(index_.released);  // SLOT_FREE
    if (seen - released_ > position_ - released_) [[unlikely]] return RingState::corrupt;
    if (seen != released_) {
      released_ = seen;
      payload_free_ = ends_[static_cast<std::uint32_t>(seen - 1) & (shape_.slots - 1)];
    }
    return RingState::ok;
  }

  // payload positions grow without wrapping; a message never crosses the end of the area.
  RingState find_payload(std::size_t bytes, RingMessage& message) {
    const std::uint64_t size = (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
    const std::uint64_t offset = payload_end_ % shape_.payload_bytes;
    const std::uint64_t skip = offset + size > shape_.payload_bytes ? shape_.payload_bytes - offset : 0;
    if (payload_end_ + skip + size - payload_free_ > shape_.payload_bytes) {
      if (RingState s = refresh(); s != RingState::ok) return s;
      if (payload_end_ + skip + size - payload_free_ > shape_.payload_bytes) return blocked();
    }
    message.payload_offset = static_cast<std::uint32_t>((payload_end_ + skip) % shape_.payload_bytes);
    loan_end_ = payload_end_ + skip + size;
    return RingState::ok;
  }

  Index& index_;
  Descriptor* descriptors_;
  RingShape shape_;
  std::uint64_t position_;          // of the next message
  std::uint64_t released_;          // cached copy of index_.released
  std::uint64_t payload_end_ = 0;   // of the last published message
  std::uint64_t payload_free_ = 0;  // everything below is free again
  std::uint64_t loan_end_ = 0;
  std::vector<std::uint64_t> ends_;  // payload_end_ after the message in each slot
};

template <class Policy>
class RingConsumer {
 public:
  using Index = RingIndex<Policy>;
  using Descriptor = RingDescriptor<Policy>;

  RingConsumer(Index& index, Descriptor* descriptors, const RingShape& shape)
      : index_(index), descriptors_(descriptors), shape_(shape), position_(shape.start) {}
  RingConsumer(const RingConsumer&) = delete;
  RingConsumer& operator=(const RingConsumer&) = delete;
  RingConsumer(RingConsumer&&) noexcept = default;

  bool ready() const noexcept {
    const std::uint32_t slot = static_cast<std::uint32_t>(position_) & (shape_.slots - 1);
    return Policy::load_acquire(descriptors_[slot].sequence) == position_ + 1;  // SLOT_READY
  }

  /// The oldest message not yet released.
  RingState try_peek(RingMessage& message) const noexcept {
    const std::uint32_t slot = static_cast<std::uint32_t>(position_) & (shape_.slots - 1);
    if (!ready()) {
      if (!producer_closed()) return RingState::would_block;
      if (!ready()) return RingState::closed;  // what was published before the close is seen by now
    }
    const std::uint64_t meta = Policy::read(descriptors_[slot].meta);
    message.bytes = static_cast<std::uint32_t>(meta);
    message.descriptor = slot;
    const std::uint64_t offset = (meta >> 32) * kLineBytes;
    if (message.bytes > shape_.max_message_bytes() ||
        (!message.is_inline() && offset + message.bytes > shape_.payload_bytes)) [[unlikely]]
      return RingState::corrupt;
    message.payload_offset = static_cast<std::uint32_t>(offset);
    return RingState::ok;
  }

  void release() {
    ++position_;
    Policy::store_release(index_.released, position_);  // SLOT_FREE: reads of the slot before the number
  }

  void close() noexcept {
    Policy::store_release(index_.consumer_closed, std::uint32_t{1});  // CONSUMER_ENDED
  }
  bool producer_closed() const noexcept {
    return Policy::load_acquire(index_.producer_closed) != 0;  // PRODUCER_ENDED
  }
  std::uint64_t position() const noexcept { return position_; }

 private:
  Index& index_;
  Descriptor* descriptors_;
  RingShape shape_;
  std::uint64_t position_;
};

}  // namespace slipring::transports
