// What stands behind the public Producer and Consumer: the channel, how it copies, and how long it waits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "slipring/channel.h"
#include "transports/channel.h"

namespace slipring {

struct Producer::Impl {
  std::unique_ptr<transports::ChannelProducer> channel;
  std::int64_t wait_ms;
  bool loaned = false;
};

struct Consumer::Impl {
  std::unique_ptr<transports::ChannelConsumer> channel;
  std::int64_t wait_ms;
  bool peeked = false;
};

}  // namespace slipring
