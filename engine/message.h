// Messages of any size over a channel: the copying form of loan/publish and peek/release.
//
// A message travels as a first piece that begins with its size, and as many further pieces as it takes; both sides
// derive the pieces from the size. A consumer that expects another size than the producer sent gets mismatch,
// with both sizes. Used by send/recv and by Producer::write / Consumer::read. Same thread rules as the channel's.
#pragma once

#include <cstddef>

#include "slipring/status.h"
#include "transports/channel.h"

namespace slipring::engine {

/// Each piece may wait as long as the channel's Waiter allows.
Status write_message(transports::ChannelProducer& channel, const void* data, std::size_t bytes);
/// Room that the first piece of a message takes.
std::size_t first_piece_bytes(const transports::ChannelProducer& channel, std::size_t bytes) noexcept;
Status read_message(transports::ChannelConsumer& channel, void* data, std::size_t bytes);

}  // namespace slipring::engine
