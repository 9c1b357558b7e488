#include "engine/group/shared_group.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "base/status.h"

namespace slipring::engine {

SharedGroup::SharedGroup(int rank, const GroupLayout& layout, std::vector<GroupMember> members,
                         collectives::GroupHeaps heaps, const base::WaitWindows& windows, bool oversubscribed,
                         base::CounterBlock* counters)
    : rank_(rank), layout_(layout), members_(std::move(members)), heaps_(std::move(heaps)), windows_(windows),
      oversubscribed_(oversubscribed), record_(&header(0).poison), counters_(counters) {}

base::Doorbell& SharedGroup::doorbell(int rank) const noexcept {
  return reinterpret_cast<collectives::RankControl*>(memory(rank) + layout_.direct_offset())->doorbell;
}

collectives::DirectGroup SharedGroup::direct_group() const {
  std::vector<std::byte*> areas;
  for (int r = 0; r < ranks(); ++r) areas.push_back(memory(r) + layout_.direct_offset());
  return {rank_, layout_.direct, std::move(areas), heaps_};
}

std::string_view SharedGroup::transport(int peer) const noexcept {
  const auto own = static_cast<std::size_t>(rank_);
  return members_[static_cast<std::size_t>(peer)].process == members_[own].process ? "inproc" : "shm";
}

std::string_view SharedGroup::transport() const noexcept {
  for (int r = 0; r < ranks(); ++r)
    if (transport(r) == "shm") return "shm";
  return "inproc";
}

Status SharedGroup::poison(const Status& cause) noexcept {
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

Status SharedGroup::interrupted() {
  if (!poisoned()) return {};
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
                              "closing its communicator; look at that rank's own output", r,
                              members_[static_cast<std::size_t>(r)].process.pid));
  }
  return {};
}

void SharedGroup::leave() noexcept {
  header(rank_).left.store(1, std::memory_order_release);  // RANK_LEFT: after the last publication
}

}  // namespace slipring::engine
