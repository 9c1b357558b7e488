// What stands behind the public Producer and Consumer: the channel, and where in its call sequence the user is.
#pragma once

#include <memory>
#include <span>

#include "base/copy.h"
#include "slipring/channel.h"
#include "transports/channel.h"

namespace slipring {

struct Producer::Impl {
  std::unique_ptr<transports::ChannelProducer> channel;
  bool loaned = false;
  bool closed = false;

  /// A slot that the caller is about to fill by stores of its own.
  std::span<std::byte> prepared(std::span<std::byte> slot) noexcept {
    if (slot.size() >= kTakeOverBytes) base::take_over(slot.data(), slot.size());
    loaned = true;
    return slot;
  }
  static constexpr std::size_t kTakeOverBytes = 4096;  // BM_ring_in_place in bench/micro/ring_bench.cc
};

struct Consumer::Impl {
  std::unique_ptr<transports::ChannelConsumer> channel;
  bool peeked = false;
  bool closed = false;
};

}  // namespace slipring
