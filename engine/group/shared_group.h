// SharedGroup: the memory and the liveness that the ranks of one communicator on one node share.
//
// form() is the handshake of a job: every rank makes a segment, tells its address through the store, maps the others',
// and leaves a mark in each; a node is what could do so. After that nothing needs the store any more: further groups
// (engine/group/subgroup.h) live in memory that all have mapped. The group watches over waits (base::Watch): it knows
// who poisoned it and whether a peer's process is gone. poison() is safe from any thread, first caller wins; everything
// else belongs to the communicator's thread. Ranks are the group's own, except where a name says job.
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
#include "base/fork_generation.h"
#include "base/segment.h"
#include "base/wait.h"
#include "engine/group/group_layout.h"
#include "engine/group/job.h"
#include "engine/store/store.h"
#include "slipring/status.h"

namespace slipring::engine {

struct GroupMember {
  int job_rank = 0;
  std::byte* memory = nullptr;             ///< laid out by GroupLayout
  std::shared_ptr<base::Segment> segment;  ///< that it lies in
};

class SharedGroup final : public base::Watch {
 public:
  static Result<std::shared_ptr<SharedGroup>> form(Store& store, std::string_view name, int rank, int ranks,
                                                   const base::ConfigValues& config, const base::Deadline& deadline);
  /// Of ranks of `parent` that have exchanged where their memory lies, the own one initialised. For Subgroup.
  SharedGroup(std::shared_ptr<SharedGroup> parent, int rank, const GroupLayout& layout, std::vector<GroupMember> members);
  ~SharedGroup() override;
  SharedGroup(const SharedGroup&) = delete;
  SharedGroup& operator=(const SharedGroup&) = delete;

  int rank() const noexcept { return rank_; }
  int ranks() const noexcept { return layout_.direct.ranks; }
  int job_rank(int rank) const noexcept { return members_[static_cast<std::size_t>(rank)].job_rank; }
  const std::shared_ptr<Job>& job() const noexcept { return job_; }
  const GroupLayout& layout() const noexcept { return layout_; }
  const base::WaitWindows& windows() const noexcept { return job_->windows; }
  std::byte* memory(int rank) const noexcept { return members_[static_cast<std::size_t>(rank)].memory; }
  base::Doorbell& doorbell(int rank) const noexcept;
  collectives::DirectGroup direct_group();
  /// Reserves and maps a part of the own memory.
  Status commit(std::size_t offset, std::size_t bytes);
  /// The own counters in the segment.
  base::CounterBlock& counters() const noexcept { return *counters_; }
  std::span<const std::byte> counter_memory() const noexcept {
    return {memory(rank_) + layout_.counters_offset(), base::counters_bytes(1)};
  }
  const std::shared_ptr<base::Heap>& heap() const noexcept { return job_->heaps.own; }
  /// "inproc" if that rank is a thread of this process, else "shm".
  std::string_view transport(int peer) const noexcept;
  std::string_view transport() const noexcept;
  /// By rank, for split_by_domains.
  std::vector<Domains> domains() const;
  /// Before any operation: a failure here is one of the group that this one was made of, and the other way round.
  void share_fate() noexcept { shares_fate_ = true; }
  /// For errors: "" for the ranks of the whole job, else e.g. "group of job ranks 1, 3".
  std::string title() const;

  /// Makes every rank's waits fail with this Status. Returns the poison in force, which may be an earlier one.
  Status poison(const Status& cause) noexcept;
  /// Whether interrupted() has something to say. One load of a line that stays in the cache.
  bool poisoned() const noexcept {
    return record_->state.load(std::memory_order_acquire) == PoisonRecord::poisoned;  // POISONED
  }
  Status interrupted() override;
  Status check_peers() override;
  /// Whether that rank's process has ended, in good order or not.
  bool gone(int peer) const noexcept { return member_of_job(peer).gone(); }
  /// Told before the process may go: from here on it is not lost but has left.
  void leave() noexcept;

 private:
  struct Former;  // the steps of form()
  SharedGroup(std::shared_ptr<Job> job, int rank, const GroupLayout& layout, std::vector<GroupMember> members);
  RankHeader& header(int rank) const noexcept { return *reinterpret_cast<RankHeader*>(memory(rank)); }
  const JobMember& member_of_job(int rank) const noexcept { return job_->members[static_cast<std::size_t>(job_rank(rank))]; }
  Status fate_of_parent() const;
  void depart() noexcept;

  const std::shared_ptr<Job> job_;
  const std::shared_ptr<SharedGroup> parent_;  // null for the ranks of the whole job
  const int rank_;
  const GroupLayout layout_;
  const std::vector<GroupMember> members_;
  PoisonRecord* const record_;  // in rank 0's memory
  base::CounterBlock* const counters_;
  bool shares_fate_ = false;
  const std::uint32_t generation_ = base::fork_generation();
};

/// Fills zeroed, committed memory of a rank so that peers may look at it: everything but rings' payloads and, where
/// `layout.reserved_bytes()` are not committed, boxes and slots.
Status init_rank_memory(std::byte* memory, const GroupLayout& layout, int rank);

}  // namespace slipring::engine
