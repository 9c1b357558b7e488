// Channels over a ring in shared memory: the `shm` transport between processes, `inproc` between threads.
//
// The ring's memory belongs to whoever maps the segment and must outlive both endpoints. One side calls
// init_shm_ring before either endpoint exists. An endpoint belongs to one thread, and so does the Waiter it is
// given. Failure: the Statuses of transports/channel.h; a peer that writes nonsense yields corrupt.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "base/wait.h"
#include "slipring/status.h"
#include "transports/channel.h"
#include "transports/shm/ring.h"

namespace slipring::transports {

/// Memory that the counters and descriptors of a ring take, a multiple of the cache line. The payload area,
/// shape.payload_bytes, is separate: nothing reads it before something is published, so its space may be
/// reserved as late as by the producer's first endpoint.
std::size_t shm_ring_control_bytes(const RingShape& shape) noexcept;

/// Prepares zeroed, line-aligned control memory. Not thread-safe against the endpoints.
Status init_shm_ring(std::byte* control, const RingShape& shape);

enum class RingSide { producer, consumer };
/// Ends one side of a ring whether or not an endpoint was ever made; the other side finds it closed.
void close_shm_ring(std::byte* control, RingSide side) noexcept;

/// What both kinds of endpoint are made from.
struct ShmEndpoint {
  std::byte* control = nullptr;  ///< shm_ring_control_bytes(shape), initialised
  std::byte* payload = nullptr;  ///< shape.payload_bytes, line-aligned
  RingShape shape;
  base::Waiter* waiter = nullptr;          ///< how this side waits
  base::Doorbell* peer_doorbell = nullptr; ///< where the other side sleeps
  int peer = -1;                           ///< rank of the other side, for messages
  std::string_view transport = "shm";      ///< static string
};

std::unique_ptr<ChannelProducer> make_shm_producer(const ShmEndpoint& endpoint);
std::unique_ptr<ChannelConsumer> make_shm_consumer(const ShmEndpoint& endpoint);

}  // namespace slipring::transports
