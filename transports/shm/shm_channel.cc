// Data path of the shared-memory channel. Budget per message and side: no system call unless the peer sleeps
// or this side has to, no lock, no allocation; inline messages touch one line of the peer's, larger ones the
// descriptor and the payload's lines; no copy (callers read and write in place).
#include "transports/shm/shm_channel.h"

#include <new>

#include "base/fork_generation.h"
#include "base/status.h"

namespace slipring::transports {
namespace {

using base::error;

struct Placement {
  RingIndex<StdAtomics>* index;
  RingDescriptor<StdAtomics>* descriptors;
  std::byte* payload;

  Placement(std::byte* control, std::byte* payload_area)
      : index(reinterpret_cast<RingIndex<StdAtomics>*>(control)),
        descriptors(reinterpret_cast<RingDescriptor<StdAtomics>*>(control + sizeof(*index))),
        payload(payload_area) {}

  std::byte* data(const RingMessage& m) const noexcept {
    return m.is_inline() ? descriptors[m.descriptor].payload : payload + m.payload_offset;
  }
};

[[gnu::cold]] Status failure(RingState state, const ShmEndpoint& e, std::string_view other, std::size_t bytes) {
  switch (state) {
    case RingState::closed:
      return error(StatusCode::closed, "{} of the {} channel, rank {}, has closed it", other, e.transport, e.peer);
    case RingState::too_large:
      return error(StatusCode::invalid_argument, "message of {} bytes exceeds {} bytes, the most that one loan of "
                   "this channel holds (half of channel.bytes); send it in pieces", bytes, e.shape.max_message_bytes());
    default:
      return error(StatusCode::corrupt, "{} of the {} channel, rank {}, wrote a counter or length that is "
                   "impossible; its memory is damaged or it runs another version", other, e.transport, e.peer);
  }
}

class ShmProducer final : public ChannelProducer {
 public:
  explicit ShmProducer(const ShmEndpoint& e)
      : endpoint_(e), place_(e.control, e.payload), ring_(*place_.index, place_.descriptors, e.shape) {}
  ~ShmProducer() override { close(); }

  std::size_t max_loan_bytes() const noexcept override { return endpoint_.shape.max_message_bytes(); }

  Status try_loan(std::size_t bytes, std::span<std::byte>& slot) override {
    const RingState state = ring_.try_loan(bytes, loaned_);
    if (state == RingState::ok) [[likely]] {
      slot = {place_.data(loaned_), bytes};
      return {};
    }
    if (state == RingState::would_block) return Status::would_block();
    return failure(state, endpoint_, "the consumer", bytes);
  }

  void publish() override {
    ring_.publish(loaned_);
    endpoint_.peer_doorbell->ring();
  }

  Status loan(std::size_t bytes, std::span<std::byte>& slot, const base::Deadline& deadline) override {
    RingState state = ring_.try_loan(bytes, loaned_);
    if (state == RingState::would_block) [[unlikely]] {
      Status s = endpoint_.waiter->wait(
          [&] { return (state = ring_.try_loan(bytes, loaned_)) != RingState::would_block; }, &deadline);
      if (!s) return std::move(s).with(waiting_text("to take a message"));
    }
    if (state != RingState::ok) [[unlikely]] return failure(state, endpoint_, "the consumer", bytes);
    slot = {place_.data(loaned_), bytes};
    return {};
  }

  void close() noexcept override {
    if (closed_) return;
    closed_ = true;
    if (generation_ != base::fork_generation()) return;  // the parent's endpoint, not this process's
    ring_.close();
    endpoint_.peer_doorbell->ring();
  }
  std::string_view transport() const noexcept override { return endpoint_.transport; }
  int peer() const noexcept override { return endpoint_.peer; }

 private:
  std::string waiting_text(std::string_view what) const {
    return fmt::format("waited for rank {} {}, transport {}", endpoint_.peer, what, endpoint_.transport);
  }

  ShmEndpoint endpoint_;
  Placement place_;
  RingProducer<StdAtomics> ring_;
  RingMessage loaned_;
  bool closed_ = false;
  const std::uint32_t generation_ = base::fork_generation();
};

class ShmConsumer final : public ChannelConsumer {
 public:
  explicit ShmConsumer(const ShmEndpoint& e)
      : endpoint_(e), place_(e.control, e.payload), ring_(*place_.index, place_.descriptors, e.shape) {}
  ~ShmConsumer() override { close(); }

  Status try_peek(std::span<const std::byte>& message) override {
    RingMessage m;
    return peeked(ring_.try_peek(m), m, message);
  }

  void release() override {
    ring_.release();
    endpoint_.peer_doorbell->ring();
  }

  Status peek(std::span<const std::byte>& message, const base::Deadline& deadline) override {
    RingMessage m;
    RingState state = ring_.try_peek(m);
    if (state == RingState::would_block) {
      Status s = endpoint_.waiter->wait([&] { return (state = ring_.try_peek(m)) != RingState::would_block; },
                                        &deadline);
      if (!s) [[unlikely]]
        return std::move(s).with(fmt::format("waited for a message from rank {}, transport {}", endpoint_.peer,
                                             endpoint_.transport));
    }
    return peeked(state, m, message);
  }

  void close() noexcept override {
    if (closed_) return;
    closed_ = true;
    if (generation_ != base::fork_generation()) return;  // the parent's endpoint, not this process's
    ring_.close();
    endpoint_.peer_doorbell->ring();
  }
  std::string_view transport() const noexcept override { return endpoint_.transport; }
  int peer() const noexcept override { return endpoint_.peer; }

 private:
  Status peeked(RingState state, const RingMessage& m, std::span<const std::byte>& message) const {
    if (state == RingState::ok) [[likely]] {
      message = {place_.data(m), m.bytes};
      return {};
    }
    if (state == RingState::would_block) return Status::would_block();
    return failure(state, endpoint_, "the producer", 0);
  }

  ShmEndpoint endpoint_;
  Placement place_;
  RingConsumer<StdAtomics> ring_;
  bool closed_ = false;
  const std::uint32_t generation_ = base::fork_generation();
};

}  // namespace

std::size_t shm_ring_control_bytes(const RingShape& shape) noexcept {
  return sizeof(RingIndex<StdAtomics>) + sizeof(RingDescriptor<StdAtomics>) * shape.slots;
}

Status init_shm_ring(std::byte* control, const RingShape& shape) {
  if (!shape.valid())
    return error(StatusCode::invalid_argument, "channel.slots {} must be a power of two and channel.bytes {} a "
                 "multiple of {} below 2 GiB", shape.slots, shape.payload_bytes, 2 * kLineBytes);
  const Placement place(control, nullptr);
  new (place.index) RingIndex<StdAtomics>{};
  // relaxed: no endpoint exists yet
  place.index->released.store(shape.start, std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < shape.slots; ++i)
    place.descriptors[i].sequence.store(first_sequence(shape), std::memory_order_relaxed);
  return {};
}

void close_shm_ring(std::byte* control, RingSide side) noexcept {
  RingIndex<StdAtomics>& index = *Placement(control, nullptr).index;
  std::atomic<std::uint32_t>& flag = side == RingSide::producer ? index.producer_closed : index.consumer_closed;
  flag.store(1, std::memory_order_release);  // PRODUCER_ENDED / CONSUMER_ENDED: after the last message or release
}

std::unique_ptr<ChannelProducer> make_shm_producer(const ShmEndpoint& endpoint) {
  return std::make_unique<ShmProducer>(endpoint);
}
std::unique_ptr<ChannelConsumer> make_shm_consumer(const ShmEndpoint& endpoint) {
  return std::make_unique<ShmConsumer>(endpoint);
}

}  // namespace slipring::transports
