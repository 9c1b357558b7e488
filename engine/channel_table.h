// ChannelTable: the channels of one rank to the others of its communicator, made when first asked for.
//
// Channels of the fixed rings (point-to-point, control, lanes of plans) live in the ranks' segments and belong to the
// table; channels that a user opens live in segments of their own and belong to the user. The table must not
// outlive the group; user channels keep the group alive. One thread at a time.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/wait.h"
#include "collectives/executor.h"
#include "engine/group/shared_group.h"
#include "transports/channel.h"
#include "transports/shm/shm_channel.h"

namespace slipring::engine {

/// What ranks agree on through their control rings; the first byte of a message there.
enum class ControlMessage : char { channel_offer = 'c', channel_answer = 'a', group = 'g' };

class ChannelTable final : public collectives::ChannelProvider {
 public:
  ChannelTable(std::shared_ptr<SharedGroup> group, base::Waiter& waiter);

  /// Null before the first ring_producer / ring_consumer of that ring.
  transports::ChannelProducer* find_producer(int peer, int ring) const noexcept { return producers_[index(peer, ring)].get(); }
  transports::ChannelConsumer* find_consumer(int peer, int ring) const noexcept { return consumers_[index(peer, ring)].get(); }
  Result<transports::ChannelProducer*> ring_producer(int peer, int ring);
  Result<transports::ChannelConsumer*> ring_consumer(int peer, int ring);

  // Lanes of plans, for the executor.
  Result<transports::ChannelProducer*> producer(int peer, int lane) override;
  Result<transports::ChannelConsumer*> consumer(int peer, int lane) override;

  /// Ends the fixed rings of this rank, used or not, so that no peer waits for it there. What was sent stays readable.
  void close() noexcept;

  // Agreements between two ranks, in the order in which each calls: bounded by the operation timeout.
  Status tell(int peer, ControlMessage kind, std::string_view text);
  /// mismatch if the peer told something of another kind.
  Result<std::string> hear(int peer, ControlMessage kind);

  /// A new channel to / from `peer`; returns when both sides have called.
  Result<std::unique_ptr<transports::ChannelProducer>> open_producer(int peer);
  Result<std::unique_ptr<transports::ChannelConsumer>> open_consumer(int peer);

 private:
  std::size_t index(int peer, int ring) const noexcept {
    return static_cast<std::size_t>(peer) * static_cast<std::size_t>(rings_per_peer_) + static_cast<std::size_t>(ring);
  }
  base::Deadline deadline() const { return base::Deadline::after(std::chrono::nanoseconds(group_->windows().timeout_ns)); }
  transports::ShmEndpoint endpoint(std::byte* owner_memory, int from, int to, int ring) const;

  std::shared_ptr<SharedGroup> group_;
  const int rings_per_peer_;
  base::Waiter& waiter_;
  std::vector<std::unique_ptr<transports::ChannelProducer>> producers_;
  std::vector<std::unique_ptr<transports::ChannelConsumer>> consumers_;
};

}  // namespace slipring::engine
