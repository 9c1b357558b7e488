#include "engine/channel_table.h"

#include <algorithm>
#include <cstring>

#include "base/status.h"

namespace slipring::engine {
namespace {

using transports::ChannelConsumer;
using transports::ChannelProducer;
using transports::ShmEndpoint;

// Begins the message that offers a channel; an answer never does.
const std::string kOffer = "channel ";

// A channel of the user's, with what it needs to live: its segment, its group, and a Waiter of its own, because
// another thread than the communicator's may use it.
template <class Interface>
class OwnedChannel : public Interface, private base::Watch {
 public:
  OwnedChannel(std::shared_ptr<SharedGroup> group, std::shared_ptr<base::Segment> segment, int peer)
      : group_(std::move(group)), segment_(std::move(segment)), peer_(peer),
        waiter_(group_->doorbell(group_->rank()), group_->windows(), *this) {}
  base::Waiter& waiter() noexcept { return waiter_; }
  void adopt(std::unique_ptr<Interface> inner) noexcept { inner_ = std::move(inner); }

  void close() noexcept override { inner_->close(); }
  std::string_view transport() const noexcept override { return inner_->transport(); }
  int peer() const noexcept override { return inner_->peer(); }

 private:
  Status interrupted() override { return group_->interrupted(); }
  // The channel may outlive the communicator of either side, so a peer that has left the group counts too.
  Status check_peers() override {
    if (Status s = group_->check_peers(); !s) return s;
    if (!group_->gone(peer_)) return {};
    return base::error(StatusCode::peer_lost, "rank {} is gone without closing its end of the channel", peer_);
  }

  std::shared_ptr<SharedGroup> group_;
  std::shared_ptr<base::Segment> segment_;
  const int peer_;
  base::Waiter waiter_;

 protected:
  std::unique_ptr<Interface> inner_;
};

class OwnedProducer final : public OwnedChannel<ChannelProducer> {
 public:
  using OwnedChannel::OwnedChannel;
  std::size_t max_loan_bytes() const noexcept override { return inner_->max_loan_bytes(); }
  Status try_loan(std::size_t bytes, std::span<std::byte>& slot) override { return inner_->try_loan(bytes, slot); }
  void publish() override { inner_->publish(); }
  Status loan(std::size_t bytes, std::span<std::byte>& slot, const base::Deadline& deadline) override {
    return inner_->loan(bytes, slot, deadline);
  }
};

class OwnedConsumer final : public OwnedChannel<ChannelConsumer> {
 public:
  using OwnedChannel::OwnedChannel;
  Status try_peek(std::span<const std::byte>& message) override { return inner_->try_peek(message); }
  void release() override { inner_->release(); }
  Status peek(std::span<const std::byte>& message, const base::Deadline& deadline) override {
    return inner_->peek(message, deadline);
  }
};

ShmEndpoint own_segment_endpoint(SharedGroup& group, base::Segment& segment, base::Waiter& waiter, int peer) {
  const transports::RingShape& shape = group.layout().ring;
  const std::size_t control = (transports::shm_ring_control_bytes(shape) + 4095) / 4096 * 4096;
  return {.control = segment.data(), .payload = segment.data() + control, .shape = shape, .waiter = &waiter,
          .peer_doorbell = &group.doorbell(peer), .peer = peer, .transport = group.transport(peer)};
}

std::size_t own_segment_bytes(const transports::RingShape& shape) {
  return (transports::shm_ring_control_bytes(shape) + 4095) / 4096 * 4096 + shape.payload_bytes;
}

}  // namespace

ChannelTable::ChannelTable(std::shared_ptr<SharedGroup> group, base::Waiter& waiter)
    : group_(std::move(group)), rings_per_peer_(group_->layout().rings_per_peer()), waiter_(waiter),
      producers_(static_cast<std::size_t>(group_->ranks() * rings_per_peer_)),
      consumers_(producers_.size()) {}

transports::ShmEndpoint ChannelTable::endpoint(std::byte* owner_memory, int from, int to, int ring) const {
  const GroupLayout& layout = group_->layout();
  const int peer = from == group_->rank() ? to : from;
  return {.control = owner_memory + layout.ring_control_offset(to, ring),
          .payload = owner_memory + layout.ring_payload_offset(to, ring), .shape = layout.ring, .waiter = &waiter_,
          .peer_doorbell = &group_->doorbell(peer), .peer = peer, .transport = group_->transport(peer)};
}

Result<ChannelProducer*> ChannelTable::ring_producer(int peer, int ring) {
  auto& entry = producers_[index(peer, ring)];
  if (entry) [[likely]] return entry.get();
  const std::size_t payload = group_->layout().ring_payload_offset(peer, ring);
  base::Segment& segment = group_->own_segment();
  if (Status s = segment.commit(payload, group_->layout().ring.payload_bytes); !s) return s;
  if (Status s = segment.prefault(payload, group_->layout().ring.payload_bytes); !s) return s;
  entry = transports::make_shm_producer(endpoint(segment.data(), group_->rank(), peer, ring));
  return entry.get();
}

Result<ChannelConsumer*> ChannelTable::ring_consumer(int peer, int ring) {
  auto& entry = consumers_[index(peer, ring)];
  if (!entry) entry = transports::make_shm_consumer(endpoint(group_->memory(peer), peer, group_->rank(), ring));
  return entry.get();
}

void ChannelTable::close() noexcept {
  const GroupLayout& layout = group_->layout();
  const int own = group_->rank();
  for (int peer = 0; peer < group_->ranks(); ++peer) {
    if (peer == own) continue;
    for (int ring = 0; ring < rings_per_peer_; ++ring) {
      transports::close_shm_ring(group_->memory(own) + layout.ring_control_offset(peer, ring), transports::RingSide::producer);
      transports::close_shm_ring(group_->memory(peer) + layout.ring_control_offset(own, ring), transports::RingSide::consumer);
    }
    group_->doorbell(peer).ring();
  }
}

Result<ChannelProducer*> ChannelTable::producer(int peer, int lane) { return ring_producer(peer, kFirstPlanRing + lane); }
Result<ChannelConsumer*> ChannelTable::consumer(int peer, int lane) { return ring_consumer(peer, kFirstPlanRing + lane); }

// The producer makes the segment and tells its address through the control ring; the consumer's answer, empty or
// the reason why not, comes back the same way.
Result<std::unique_ptr<ChannelProducer>> ChannelTable::open_producer(int peer) {
  const base::Deadline deadline = base::Deadline::after(std::chrono::nanoseconds(group_->windows().timeout_ns));
  auto segment = base::Segment::create({.bytes = own_segment_bytes(group_->layout().ring),
                                        .tag = fmt::format("channel {} -> {}", group_->rank(), peer)});
  if (!segment) return std::move(segment).status();
  if (Status s = (*segment)->prefault(0, (*segment)->size()); !s) return s;
  if (Status s = transports::init_shm_ring((*segment)->data(), group_->layout().ring); !s) return s;

  auto to_peer = ring_producer(peer, kControlRing);
  if (!to_peer) return std::move(to_peer).status();
  const std::string address = kOffer + (*segment)->address();
  std::span<std::byte> slot;
  if (Status s = (*to_peer)->loan(address.size(), slot, deadline); !s) return s;
  std::memcpy(slot.data(), address.data(), address.size());
  (*to_peer)->publish();

  auto from_peer = ring_consumer(peer, kControlRing);
  if (!from_peer) return std::move(from_peer).status();
  std::span<const std::byte> answer;
  if (Status s = (*from_peer)->peek(answer, deadline); !s) return std::move(s).with("the peer has not called open_consumer");
  const std::string refusal(reinterpret_cast<const char*>(answer.data()), answer.size());
  (*from_peer)->release();
  if (refusal.starts_with(kOffer))
    return base::error(StatusCode::mismatch, "ranks {} and {} both called open_producer to each other; one of them must call "
                       "open_consumer", group_->rank(), peer);
  (*segment)->seal_attach();
  if (!refusal.empty())
    return base::error(StatusCode::unavailable, "rank {} could not attach to the channel: {}", peer, refusal);

  auto channel = std::make_unique<OwnedProducer>(group_, *segment, peer);
  channel->adopt(transports::make_shm_producer(own_segment_endpoint(*group_, **segment, channel->waiter(), peer)));
  return std::unique_ptr<ChannelProducer>(std::move(channel));
}

Result<std::unique_ptr<ChannelConsumer>> ChannelTable::open_consumer(int peer) {
  const base::Deadline deadline = base::Deadline::after(std::chrono::nanoseconds(group_->windows().timeout_ns));
  auto from_peer = ring_consumer(peer, kControlRing);
  if (!from_peer) return std::move(from_peer).status();
  std::span<const std::byte> message;
  if (Status s = (*from_peer)->peek(message, deadline); !s) return std::move(s).with("the peer has not called open_producer");
  const std::string address(reinterpret_cast<const char*>(message.data()), message.size());
  (*from_peer)->release();

  auto segment = base::Segment::attach(address.substr(std::min<std::size_t>(address.size(), kOffer.size())), deadline);
  const bool fits = segment.is_ok() && (*segment)->size() >= own_segment_bytes(group_->layout().ring);
  const std::string refusal = !segment.is_ok() ? segment.status().to_string() : fits ? "" : "it is too small";
  auto to_peer = ring_producer(peer, kControlRing);
  if (!to_peer) return std::move(to_peer).status();
  std::span<std::byte> slot;
  if (Status s = (*to_peer)->loan(refusal.size(), slot, deadline); !s) return s;
  std::memcpy(slot.data(), refusal.data(), refusal.size());
  (*to_peer)->publish();
  if (!refusal.empty()) return base::error(StatusCode::unavailable, "channel from rank {}: {}", peer, refusal);

  auto channel = std::make_unique<OwnedConsumer>(group_, *segment, peer);
  channel->adopt(transports::make_shm_consumer(own_segment_endpoint(*group_, **segment, channel->waiter(), peer)));
  return std::unique_ptr<ChannelConsumer>(std::move(channel));
}

}  // namespace slipring::engine
