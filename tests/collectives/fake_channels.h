// Channels in ordinary memory for tests of plans: as deep as asked, refusing at random if asked, failing on
// demand.
//
// A FakeNetwork owns all channels of a group and outlives its providers. Endpoints may sit in different
// threads. A refusal is would_block although there is room or a message: it reaches the interleavings that
// luck does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <tuple>
#include <vector>

#include "base/status.h"
#include "collectives/executor.h"
#include "transports/channel.h"

namespace slipring::collectives {

class FakeChannel final : public transports::ChannelProducer, public transports::ChannelConsumer {
 public:
  FakeChannel(int from, int to, int depth, std::size_t max_bytes, double refusal, std::uint64_t seed)
      : from_(from), to_(to), max_bytes_(max_bytes), refusal_(refusal), loans_(seed), peeks_(seed + 1) {
    for (int i = 0; i < depth; ++i) slots_.push_back({std::vector<std::byte>(max_bytes), 0});
  }

  std::size_t max_loan_bytes() const noexcept override { return max_bytes_; }
  Status try_loan(std::size_t bytes, std::span<std::byte>& slot) override {
    if (refuses(loans_)) return Status::would_block();
    const std::scoped_lock lock(mutex_);
    if (!failure_.is_ok()) return failure_;
    if (published_ - released_ == slots_.size()) return Status::would_block();
    Slot& free = slots_[published_ % slots_.size()];
    free.bytes = bytes;
    slot = std::span(free.data).first(bytes);
    is_loaned_ = true;
    return {};
  }
  void publish() override {
    const std::scoped_lock lock(mutex_);
    if (!is_loaned_) std::abort();
    is_loaned_ = false;
    ++published_;
  }
  Status loan(std::size_t bytes, std::span<std::byte>& slot, const base::Deadline&) override {
    return try_loan(bytes, slot);
  }
  Status try_peek(std::span<const std::byte>& message) override {
    if (refuses(peeks_)) return Status::would_block();
    const std::scoped_lock lock(mutex_);
    if (!failure_.is_ok()) return failure_;
    if (published_ == released_) return Status::would_block();
    const Slot& oldest = slots_[released_ % slots_.size()];
    message = std::span(oldest.data).first(oldest.bytes);
    return {};
  }
  void release() override {
    const std::scoped_lock lock(mutex_);
    if (published_ == released_) std::abort();
    // What is released may be overwritten at once: make a late reader see it.
    for (std::byte& byte : slots_[released_ % slots_.size()].data) byte = std::byte{0xa5};
    ++released_;
  }
  Status peek(std::span<const std::byte>& message, const base::Deadline&) override {
    return try_peek(message);
  }
  void close() noexcept override {}
  std::string_view transport() const noexcept override { return "fake"; }
  int peer() const noexcept override { return to_; }

  void fail(const Status& status) {
    const std::scoped_lock lock(mutex_);
    failure_ = status;
  }
  bool is_empty() {
    const std::scoped_lock lock(mutex_);
    return published_ == released_ && !is_loaned_;
  }
  std::uint64_t messages() {
    const std::scoped_lock lock(mutex_);
    return published_;
  }

 private:
  struct Slot {
    std::vector<std::byte> data;
    std::size_t bytes;
  };
  bool refuses(std::minstd_rand& random) const {
    return refusal_ > 0 && static_cast<double>(random() % 1000) < refusal_ * 1000;
  }

  const int from_, to_;
  const std::size_t max_bytes_;
  const double refusal_;
  std::minstd_rand loans_, peeks_;  // one per side: the sides may be two threads
  std::mutex mutex_;
  std::vector<Slot> slots_;
  std::uint64_t published_ = 0, released_ = 0;
  bool is_loaned_ = false;
  Status failure_;
};

struct FakeNetworkOptions {
  int depth = 1;
  std::size_t max_bytes = 64;
  double refusal = 0;  ///< probability that a try_ call says would_block for no reason
  std::uint64_t seed = 1;
};

class FakeNetwork {
 public:
  explicit FakeNetwork(const FakeNetworkOptions& options = {}) : options_(options) {}

  FakeChannel& channel(int from, int to, int lane) {
    std::unique_ptr<FakeChannel>& found = channels_[{from, to, lane}];
    if (!found) {
      found = std::make_unique<FakeChannel>(from, to, options_.depth, options_.max_bytes, options_.refusal,
                                            options_.seed + channels_.size());
    }
    return *found;
  }
  /// The channels of one rank, as its executor asks for them. Lives as long as the network.
  ChannelProvider& of(int rank) { return providers_.emplace_back(*this, rank); }
  bool is_empty() {
    for (auto& [key, channel] : channels_) {
      if (!channel->is_empty()) return false;
    }
    return true;
  }

 private:
  class Provider final : public ChannelProvider {
   public:
    Provider(FakeNetwork& network, int rank) : network_(network), rank_(rank) {}
    Result<transports::ChannelProducer*> producer(int peer, int lane) override {
      return &network_.channel(rank_, peer, lane);
    }
    Result<transports::ChannelConsumer*> consumer(int peer, int lane) override {
      return &network_.channel(peer, rank_, lane);
    }

   private:
    FakeNetwork& network_;
    int rank_;
  };

  FakeNetworkOptions options_;
  std::map<std::tuple<int, int, int>, std::unique_ptr<FakeChannel>> channels_;
  std::deque<Provider> providers_;
};

}  // namespace slipring::collectives
