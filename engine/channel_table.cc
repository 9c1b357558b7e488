#include "engine/channel_table.h"

#include <cstring>

#include "base/status.h"

namespace slipring::engine {
namespace {

using transports::ChannelConsumer;
using transports::ChannelProducer;
using transports::ShmEndpoint;

std::string_view calls_of(ControlMessage kind) noexcept {
  switch (kind) {
    case ControlMessage::channel_offer: return "open_producer";
    case ControlMessage::channel_answer: return "open_consumer";
    case ControlMessage::group: return "create_group";
  }
  return "something unknown";
}

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
          .payload = owner_memory + layout.ring_payload_offset(to, ring), .shape = layout.ring_shape(ring), .waiter = &waiter_,
          .peer_doorbell = &group_->doorbell(peer), .peer = peer, .transport = group_->transport(peer)};
}

Result<ChannelProducer*> ChannelTable::ring_producer(int peer, int ring) {
  auto& entry = producers_[index(peer, ring)];
  if (entry) [[likely]] return entry.get();
  const GroupLayout& layout = group_->layout();
  if (Status s = group_->commit(layout.ring_payload_offset(peer, ring), layout.ring_shape(ring).payload_bytes); !s) return s;
  entry = transports::make_shm_producer(endpoint(group_->memory(group_->rank()), group_->rank(), peer, ring));
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

Status ChannelTable::tell(int peer, ControlMessage kind, std::string_view text) {
  auto channel = ring_producer(peer, kControlRing);
  if (!channel) return std::move(channel).status();
  std::span<std::byte> slot;
  if (Status s = (*channel)->loan(text.size() + 1, slot, base::Deadline::by_waiter()); !s) return s;
  slot[0] = static_cast<std::byte>(kind);
  std::memcpy(slot.data() + 1, text.data(), text.size());
  (*channel)->publish();
  return {};
}

Result<std::string> ChannelTable::hear(int peer, ControlMessage kind) {
  auto channel = ring_consumer(peer, kControlRing);
  if (!channel) return std::move(channel).status();
  std::span<const std::byte> message;
  if (Status s = (*channel)->peek(message, base::Deadline::by_waiter()); !s)
    return std::move(s).with(fmt::format("rank {} waited for rank {} to call {}", group_->rank(), peer, calls_of(kind)));
  std::string text(reinterpret_cast<const char*>(message.data()), message.size());
  (*channel)->release();
  const auto told = static_cast<ControlMessage>(text.empty() ? '\0' : text.front());
  if (told != kind)
    return base::error(StatusCode::mismatch, "rank {} awaits that rank {} calls {}, but it called {}; the two ranks must agree on "
                       "what they form, in the same order", group_->rank(), peer, calls_of(kind), calls_of(told));
  return text.substr(1);
}

// The producer makes the segment and tells its address; the consumer answers with nothing or the reason why not.
Result<std::unique_ptr<ChannelProducer>> ChannelTable::open_producer(int peer) {
  auto segment = base::Segment::create({.bytes = own_segment_bytes(group_->layout().ring),
                                        .tag = fmt::format("channel {} -> {}", group_->rank(), peer)});
  if (!segment) return std::move(segment).status();
  if (Status s = (*segment)->prefault(0, (*segment)->size()); !s) return s;
  if (Status s = transports::init_shm_ring((*segment)->data(), group_->layout().ring); !s) return s;
  if (Status s = tell(peer, ControlMessage::channel_offer, (*segment)->address()); !s) return s;
  auto refusal = hear(peer, ControlMessage::channel_answer);
  if (!refusal) return std::move(refusal).status();
  (*segment)->seal_attach();
  if (!refusal->empty())
    return base::error(StatusCode::unavailable, "rank {} could not attach to the channel: {}", peer, *refusal);

  auto channel = std::make_unique<OwnedProducer>(group_, *segment, peer);
  channel->adopt(transports::make_shm_producer(own_segment_endpoint(*group_, **segment, channel->waiter(), peer)));
  return std::unique_ptr<ChannelProducer>(std::move(channel));
}

Result<std::unique_ptr<ChannelConsumer>> ChannelTable::open_consumer(int peer) {
  auto address = hear(peer, ControlMessage::channel_offer);
  if (!address) return std::move(address).status();
  auto segment = base::Segment::attach(*address, deadline());
  const bool fits = segment.is_ok() && (*segment)->size() >= own_segment_bytes(group_->layout().ring);
  const std::string refusal = !segment.is_ok() ? segment.status().to_string() : fits ? "" : "it is too small";
  if (Status s = tell(peer, ControlMessage::channel_answer, refusal); !s) return s;
  if (!refusal.empty()) return base::error(StatusCode::unavailable, "channel from rank {}: {}", peer, refusal);

  auto channel = std::make_unique<OwnedConsumer>(group_, *segment, peer);
  channel->adopt(transports::make_shm_consumer(own_segment_endpoint(*group_, **segment, channel->waiter(), peer)));
  return std::unique_ptr<ChannelConsumer>(std::move(channel));
}

}  // namespace slipring::engine
