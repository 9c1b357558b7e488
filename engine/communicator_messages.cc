// Point-to-point messages, channels that users open, and the heap.
#include "base/status.h"
#include "engine/communicator_impl.h"
#include "engine/message.h"

namespace slipring::engine {

Status CommunicatorImpl::refuse_peer(int peer, std::string_view call) const {
  if (peer == rank())
    return base::error(StatusCode::invalid_argument, "{}: peer {} is this rank itself; copy the buffer instead", call, peer);
  return base::error(StatusCode::invalid_argument, "{}: peer {} is not one of {} ranks", call, peer, size());
}

Status CommunicatorImpl::refuse_message(const void* buffer, std::size_t bytes, int peer, std::string_view call) const {
  if (Status s = check_usable(); !s) return s;
  return check_message(buffer, bytes, peer, call);
}

Status CommunicatorImpl::send(const void* buffer, std::size_t bytes, int peer) {
  if (!usable() || !is_peer(peer) || (buffer == nullptr && bytes != 0)) [[unlikely]]
    return refuse_message(buffer, bytes, peer, "send");
  transports::ChannelProducer* channel = channels_.find_producer(peer, kPointToPointRing);
  if (channel == nullptr) [[unlikely]] {
    auto made = channels_.ring_producer(peer, kPointToPointRing);
    if (!made) return fail(std::move(made).status());
    channel = *made;
  }
  counters_.channel_messages.add(1);
  counters_.channel_bytes.add(bytes);
  Status s = write_message(*channel, buffer, bytes);
  if (s.is_ok()) [[likely]] return {};
  return fail(std::move(s).with(fmt::format("rank {} in send of {} bytes to rank {}", rank(), bytes, peer)));
}

Status CommunicatorImpl::recv(void* buffer, std::size_t bytes, int peer) {
  if (!usable() || !is_peer(peer) || (buffer == nullptr && bytes != 0)) [[unlikely]]
    return refuse_message(buffer, bytes, peer, "recv");
  transports::ChannelConsumer* channel = channels_.find_consumer(peer, kPointToPointRing);
  if (channel == nullptr) [[unlikely]] {
    auto made = channels_.ring_consumer(peer, kPointToPointRing);
    if (!made) return fail(std::move(made).status());
    channel = *made;
  }
  Status s = read_message(*channel, buffer, bytes);
  if (s.is_ok()) [[likely]] return {};
  return fail(std::move(s).with(fmt::format("rank {} in recv of {} bytes from rank {}", rank(), bytes, peer)));
}

Status CommunicatorImpl::send_in_lane(WorkState& operation, const void* buffer, std::size_t bytes, int peer) {
  if (usable() && is_peer(peer) && (buffer != nullptr || bytes == 0)) {
    auto channel = channels_.ring_producer(peer, kPointToPointRing);
    if (!channel) return fail(std::move(channel).status());
    std::span<std::byte> room;  // not published: the message's own loan takes its place
    Status s = (*channel)->loan(first_piece_bytes(**channel, bytes), room, base::Deadline::by_waiter());
    if (!s && operation.cancelled) return s;
    if (!s) return fail(std::move(s).with(fmt::format("rank {} in send of {} bytes to rank {}", rank(), bytes, peer)));
  }
  operation.moved = true;
  return send(buffer, bytes, peer);  // says what is wrong, if anything is
}

Status CommunicatorImpl::recv_in_lane(WorkState& operation, void* buffer, std::size_t bytes, int peer) {
  if (usable() && is_peer(peer) && (buffer != nullptr || bytes == 0)) {
    auto channel = channels_.ring_consumer(peer, kPointToPointRing);
    if (!channel) return fail(std::move(channel).status());
    std::span<const std::byte> first;
    Status s = (*channel)->peek(first, base::Deadline::by_waiter());
    if (!s && operation.cancelled) return s;
    if (!s) return fail(std::move(s).with(fmt::format("rank {} in recv of {} bytes from rank {}", rank(), bytes, peer)));
  }
  operation.moved = true;
  return recv(buffer, bytes, peer);
}

Lanes& CommunicatorImpl::lanes() {
  if (!lanes_)
    lanes_ = std::make_unique<Lanes>(waiter_, counters_, config_.progress == "thread",
                                     [this](Status s) { return fail(std::move(s)); });
  return *lanes_;
}

Result<std::unique_ptr<transports::ChannelProducer>> CommunicatorImpl::open_producer(int peer) {
  if (Status s = check_usable(); !s) return s;
  if (!is_peer(peer)) return refuse_peer(peer, "open_producer");
  auto channel = channels_.open_producer(peer);
  if (!channel) return fail(std::move(channel).status());
  return channel;
}

Result<std::unique_ptr<transports::ChannelConsumer>> CommunicatorImpl::open_consumer(int peer) {
  if (Status s = check_usable(); !s) return s;
  if (!is_peer(peer)) return refuse_peer(peer, "open_consumer");
  auto channel = channels_.open_consumer(peer);
  if (!channel) return fail(std::move(channel).status());
  return channel;
}

Result<void*> CommunicatorImpl::heap_allocate(std::size_t bytes) {
  if (!group_->heap())
    return base::error(StatusCode::unavailable, "there is no heap: heap.max_bytes is 0");
  auto pointer = group_->heap()->allocate(bytes);
  if (!pointer) return std::move(pointer).status();
  return static_cast<void*>(*pointer);
}

Status CommunicatorImpl::heap_free(void* pointer) {
  if (!group_->heap()) return base::error(StatusCode::unavailable, "there is no heap: heap.max_bytes is 0");
  return group_->heap()->free(pointer);
}

}  // namespace slipring::engine
