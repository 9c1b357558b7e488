#include "engine/group/shared_group.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/status.h"
#include "transports/shm/shm_channel.h"

namespace slipring::engine {

namespace {

base::CounterBlock* counters_in(std::byte* memory, const GroupLayout& layout) noexcept {
  auto block = base::counter_block({memory + layout.counters_offset(), base::counters_bytes(1)}, 0);
  return block ? *block : nullptr;
}

}  // namespace

Status init_rank_memory(std::byte* memory, const GroupLayout& layout, int rank) {
  const int ranks = layout.direct.ranks;
  collectives::init_rank_area(memory + layout.direct_offset(), layout.direct);
  for (int peer = 0; peer < ranks; ++peer)
    for (int ring = 0; ring < layout.rings_per_peer(); ++ring)
      if (Status s = transports::init_shm_ring(memory + layout.ring_control_offset(peer, ring), layout.ring_shape(ring)); !s) return s;
  if (Status s = base::format_counters({memory + layout.counters_offset(), base::counters_bytes(1)}, 1); !s) return s;
  auto* header = reinterpret_cast<RankHeader*>(memory);
  header->version = kGroupVersion;
  header->ranks = static_cast<std::uint32_t>(ranks);
  header->rank = static_cast<std::uint32_t>(rank);
  header->magic = kGroupMagic;
  return {};
}

SharedGroup::SharedGroup(std::shared_ptr<Job> job, int rank, const GroupLayout& layout, std::vector<GroupMember> members)
    : job_(std::move(job)), rank_(rank), layout_(layout), members_(std::move(members)), record_(&header(0).poison),
      counters_(counters_in(memory(rank_), layout_)) {}

SharedGroup::SharedGroup(std::shared_ptr<SharedGroup> parent, int rank, const GroupLayout& layout, std::vector<GroupMember> members)
    : job_(parent->job_), parent_(std::move(parent)), rank_(rank), layout_(layout), members_(std::move(members)),
      record_(&header(0).poison), counters_(counters_in(memory(rank_), layout_)) {}

SharedGroup::~SharedGroup() {
  if (parent_ && generation_ == base::fork_generation()) depart();
}

// The own memory is used anew once every peer has said, or can no longer say, that it is through with it.
void SharedGroup::depart() noexcept {
  using Peer = std::pair<const std::atomic<std::uint64_t>*, std::shared_ptr<const base::PeerProcess>>;
  std::vector<Peer> peers;
  for (int r = 0; r < ranks(); ++r) {
    if (r == rank_) continue;
    peers.emplace_back(&marks_in(memory(rank_))[r], member_of_job(r).liveness);
    // PEER_DEPARTED: this rank reads and writes nothing of that memory any more.
    marks_in(memory(r))[rank_].store(kDepartedMark, std::memory_order_release);
  }
  const auto through = [](const Peer& peer) {
    const auto& [mark, process] = peer;
    return (*mark).load(std::memory_order_acquire) == kDepartedMark || (process && process->gone());  // PEER_DEPARTED
  };
  const GroupMember& own = members_[static_cast<std::size_t>(rank_)];
  job_->arena->retire(static_cast<std::size_t>(own.memory - own.segment->data()), layout_.total_bytes(),
                      [peers = std::move(peers), through] { return std::all_of(peers.begin(), peers.end(), through); });
}

base::Doorbell& SharedGroup::doorbell(int rank) const noexcept {
  return reinterpret_cast<collectives::RankControl*>(memory(rank) + layout_.direct_offset())->doorbell;
}

Status SharedGroup::commit(std::size_t offset, std::size_t bytes) {
  const GroupMember& own = members_[static_cast<std::size_t>(rank_)];
  return own.segment->prefault(static_cast<std::size_t>(own.memory - own.segment->data()) + offset, bytes);
}

collectives::DirectGroup SharedGroup::direct_group() {
  std::vector<std::byte*> areas;
  collectives::GroupHeaps heaps{job_->heaps.own, {}};
  for (int r = 0; r < ranks(); ++r) {
    areas.push_back(memory(r) + layout_.direct_offset());
    if (!job_->heaps.all.empty()) heaps.all.push_back(job_->heaps.all[static_cast<std::size_t>(job_rank(r))]);
  }
  return {rank_, layout_.direct, std::move(areas), std::move(heaps),
          [this](std::size_t offset, std::size_t bytes) { return commit(layout_.direct_offset() + offset, bytes); }, job_->threads};
}

std::vector<Domains> SharedGroup::domains() const {
  std::vector<Domains> by_rank;
  for (int r = 0; r < ranks(); ++r) by_rank.push_back(member_of_job(r).domains);
  return by_rank;
}

std::string SharedGroup::title() const {
  if (!parent_) return "";
  std::vector<int> ranks;
  for (const GroupMember& m : members_) ranks.push_back(m.job_rank);
  return fmt::format("group of job ranks {}", fmt::join(ranks, ", "));
}

std::string_view SharedGroup::transport(int peer) const noexcept {
  return member_of_job(peer).process == member_of_job(rank_).process ? "inproc" : "shm";
}

std::string_view SharedGroup::transport() const noexcept {
  for (int r = 0; r < ranks(); ++r)
    if (transport(r) == "shm") return "shm";
  return "inproc";
}

Status SharedGroup::poison(const Status& cause) noexcept {
  if (shares_fate_) (void)parent_->poison(cause);
  PoisonRecord& p = *record_;
  std::uint32_t expected = PoisonRecord::clean;
  // acq_rel: the claim alone carries nothing; the record becomes visible with POISONED below.
  if (p.state.compare_exchange_strong(expected, PoisonRecord::claimed, std::memory_order_acq_rel)) {
    p.code = static_cast<std::int32_t>(cause.code());
    p.reporter = rank_;
    const std::size_t length = std::min(cause.message().size(), sizeof(p.text) - 1);
    std::memcpy(p.text, cause.message().data(), length);
    p.text[length] = '\0';
    p.state.store(PoisonRecord::poisoned, std::memory_order_release);  // POISONED: code, reporter, text
    for (int r = 0; r < ranks(); ++r) doorbell(r).wake();
    return cause;
  }
  Status earlier = interrupted();
  return earlier ? cause : earlier;  // ok: another rank is just writing the record; one's own cause will do
}

// Who aborts a communicator wants the groups that were made of it to end as well; other failures stay where they are,
// unless a group is but a part of how its parent works.
Status SharedGroup::fate_of_parent() const {
  if (!parent_) return {};
  Status above = parent_->interrupted();
  return shares_fate_ || above.code() == StatusCode::aborted ? above : Status();
}

Status SharedGroup::interrupted() {
  if (!poisoned()) [[likely]] return fate_of_parent();
  const PoisonRecord& p = *record_;
  char text[sizeof(p.text)];
  std::memcpy(text, p.text, sizeof text);
  text[sizeof(text) - 1] = '\0';
  const auto code = p.code > 0 && p.code < static_cast<int>(StatusCode::would_block) ? static_cast<StatusCode>(p.code)
                                                                                      : StatusCode::corrupt;
  if (p.reporter == rank_) return Status(code, text);
  return base::error(code, "{}; reported by rank {}", text, p.reporter);
}

Status SharedGroup::check_peers() {
  for (int r = 0; r < ranks(); ++r) {
    if (r == rank_ || !gone(r)) continue;
    if (header(r).left.load(std::memory_order_acquire) != 0) continue;  // RANK_LEFT
    return poison(base::error(StatusCode::peer_lost, "rank {} (pid {}) is gone: it was killed or exited without "
                              "closing its communicator; look at that rank's own output", r, member_of_job(r).process.pid));
  }
  return {};
}

void SharedGroup::leave() noexcept {
  header(rank_).left.store(1, std::memory_order_release);  // RANK_LEFT: after the last publication
}

}  // namespace slipring::engine
