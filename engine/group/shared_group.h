// SharedGroup: the memory and the liveness that the ranks of one communicator on one node share.
//
// form() is the handshake: every rank makes a segment, tells its address through the store, maps the others', and
// leaves a mark in each; a node is what could do so. After that nothing needs the store any more. The group
// watches over waits (base::Watch): it knows who poisoned it and whether a peer's process is gone. poison() is
// safe from any thread, first caller wins; everything else belongs to the communicator's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/counters.h"
#include "base/deadline.h"
#include "base/heap.h"
#include "base/liveness.h"
#include "base/segment.h"
#include "base/wait.h"
#include "engine/group/group_layout.h"
#include "engine/store/store.h"
#include "slipring/status.h"

namespace slipring::engine {

struct GroupMember {
  base::ProcessId process;
  std::shared_ptr<base::Segment> segment;
  /// Null where the process cannot be seen: a rank in another PID namespace is missed by timeout only.
  std::shared_ptr<const base::PeerProcess> liveness;
};

class SharedGroup final : public base::Watch {
 public:
  static Result<std::shared_ptr<SharedGroup>> form(Store& store, std::string_view name, int rank, int ranks,
                                                   const base::ConfigValues& config, const base::Deadline& deadline);

  int rank() const noexcept { return rank_; }
  int ranks() const noexcept { return layout_.direct.ranks; }
  const GroupLayout& layout() const noexcept { return layout_; }
  const base::WaitWindows& windows() const noexcept { return windows_; }
  bool oversubscribed() const noexcept { return oversubscribed_; }
  std::byte* memory(int rank) const noexcept { return members_[static_cast<std::size_t>(rank)].segment->data(); }
  base::Doorbell& doorbell(int rank) const noexcept;
  collectives::DirectGroup direct_group() const;
  base::Segment& own_segment() const noexcept { return *members_[static_cast<std::size_t>(rank_)].segment; }
  /// The own counters in the segment.
  base::CounterBlock& counters() const noexcept { return *counters_; }
  std::span<const std::byte> counter_memory() const noexcept {
    return {memory(rank_) + layout_.counters_offset(), base::counters_bytes(1)};
  }
  const std::shared_ptr<base::Heap>& heap() const noexcept { return heaps_.own; }
  /// "inproc" if that rank is a thread of this process, else "shm".
  std::string_view transport(int peer) const noexcept;
  std::string_view transport() const noexcept;

  /// Makes every rank's waits fail with this Status. Returns the poison in force, which may be an earlier one.
  Status poison(const Status& cause) noexcept;
  /// Whether interrupted() has something to say. One load of a line that stays in the cache.
  bool poisoned() const noexcept {
    return record_->state.load(std::memory_order_acquire) == PoisonRecord::poisoned;  // POISONED
  }
  Status interrupted() override;
  Status check_peers() override;
  /// Whether that rank's process has ended, in good order or not.
  bool gone(int peer) const noexcept {
    const auto& liveness = members_[static_cast<std::size_t>(peer)].liveness;
    return liveness && liveness->gone();
  }
  /// Told before the process may go: from here on it is not lost but has left.
  void leave() noexcept;

 private:
  struct Former;  // the steps of form()
  SharedGroup(int rank, const GroupLayout& layout, std::vector<GroupMember> members, collectives::GroupHeaps heaps,
              const base::WaitWindows& windows, bool oversubscribed, base::CounterBlock* counters);
  RankHeader& header(int rank) const noexcept { return *reinterpret_cast<RankHeader*>(memory(rank)); }

  const int rank_;
  const GroupLayout layout_;
  const std::vector<GroupMember> members_;
  const collectives::GroupHeaps heaps_;
  const base::WaitWindows windows_;
  const bool oversubscribed_;
  PoisonRecord* const record_;  // in rank 0's segment
  base::CounterBlock* const counters_;
};

}  // namespace slipring::engine
