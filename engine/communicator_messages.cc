// Point-to-point messages, channels that users open, and the heap.
#include "base/status.h"
#include "engine/communicator_impl.h"
#include "engine/message.h"

namespace slipring::engine {

Status CommunicatorImpl::check_peer(int peer, std::string_view call) const {
  if (Status s = check_usable(); !s) return s;
  if (peer < 0 || peer >= size())
    return base::error(StatusCode::invalid_argument, "{}: peer {} is not one of {} ranks", call, peer, size());
  if (peer == rank())
    return base::error(StatusCode::invalid_argument, "{}: peer {} is this rank itself; copy the buffer instead", call, peer);
  return {};
}

Status CommunicatorImpl::send(const void* buffer, std::size_t bytes, int peer) {
  if (Status s = check_peer(peer, "send"); !s) return s;
  if (buffer == nullptr && bytes != 0) return base::error(StatusCode::invalid_argument, "send: buffer is null, {} bytes", bytes);
  auto channel = channels_.ring_producer(peer, kPointToPointRing);
  if (!channel) return settle(std::move(channel).status());
  counters_.channel_messages.add(1);
  counters_.channel_bytes.add(bytes);
  return settle(write_message(**channel, buffer, bytes, config_.op_timeout_ms));
}

Status CommunicatorImpl::recv(void* buffer, std::size_t bytes, int peer) {
  if (Status s = check_peer(peer, "recv"); !s) return s;
  if (buffer == nullptr && bytes != 0) return base::error(StatusCode::invalid_argument, "recv: buffer is null, {} bytes", bytes);
  auto channel = channels_.ring_consumer(peer, kPointToPointRing);
  if (!channel) return settle(std::move(channel).status());
  return settle(read_message(**channel, buffer, bytes, config_.op_timeout_ms));
}

Result<std::unique_ptr<transports::ChannelProducer>> CommunicatorImpl::open_producer(int peer) {
  if (Status s = check_peer(peer, "open_producer"); !s) return s;
  auto channel = channels_.open_producer(peer);
  if (!channel) return fail(std::move(channel).status());
  return channel;
}

Result<std::unique_ptr<transports::ChannelConsumer>> CommunicatorImpl::open_consumer(int peer) {
  if (Status s = check_peer(peer, "open_consumer"); !s) return s;
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
