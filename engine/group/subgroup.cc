#include "engine/group/subgroup.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace slipring::engine {
namespace {

// Committed at once; boxes, slots and rings' payloads only when they are used: most of many groups use few of them.
struct Range {
  std::size_t offset, bytes;
};

Status commit_control(base::Segment& segment, std::size_t base, const GroupLayout& layout) {
  const std::size_t rings = layout.ring_control_offset(0, 0);
  for (const Range part : {Range{0, layout.direct_offset() + layout.direct.box_offset(0)}, Range{rings, layout.reserved_bytes() - rings}})
    if (Status s = segment.prefault(base + part.offset, part.bytes); !s) return s;
  return {};
}

}  // namespace

Subgroup::Subgroup(std::shared_ptr<SharedGroup> parent, std::vector<int> ranks, const GroupLayout& layout, std::size_t offset) noexcept
    : parent_(std::move(parent)), ranks_(std::move(ranks)),
      rank_(static_cast<int>(std::find(ranks_.begin(), ranks_.end(), parent_->rank()) - ranks_.begin())), layout_(layout), offset_(offset) {}

Subgroup::Subgroup(Subgroup&& other) noexcept
    : parent_(std::exchange(other.parent_, nullptr)), ranks_(std::move(other.ranks_)), rank_(other.rank_), layout_(other.layout_),
      offset_(other.offset_) {}

Subgroup::~Subgroup() {
  if (parent_) parent_->job()->arena->retire(offset_, layout_.total_bytes(), [] { return true; });
}

Result<Subgroup> Subgroup::reserve(std::shared_ptr<SharedGroup> parent, std::vector<int> ranks, const base::ConfigValues& config) {
  GroupArena* arena = parent->job()->arena.get();
  if (arena == nullptr)
    return base::error(StatusCode::unavailable, "this job was started without memory for groups: group.max_bytes is 0");
  const GroupLayout layout(config, static_cast<int>(ranks.size()));
  auto offset = arena->allocate(layout.total_bytes());
  if (!offset) return std::move(offset).status();
  Subgroup made(std::move(parent), std::move(ranks), layout, *offset);
  if (Status s = commit_control(*arena->segment(), *offset, layout); !s) return s;
  if (Status s = init_rank_memory(arena->segment()->data() + *offset, layout, made.rank_); !s) return s;
  return made;
}

Result<std::shared_ptr<SharedGroup>> Subgroup::form(std::span<const std::uint64_t> offers) {
  std::vector<GroupMember> members;
  const Job& job = *parent_->job();
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    GroupMember member{.job_rank = parent_->job_rank(ranks_[r])};
    member.segment = job.members[static_cast<std::size_t>(member.job_rank)].arena;
    const bool fits = member.segment && offers[r] % alignof(RankHeader) == 0 && offers[r] <= member.segment->size() &&
                      layout_.total_bytes() <= member.segment->size() - offers[r];
    if (fits) member.memory = member.segment->data() + offers[r];
    const auto* header = reinterpret_cast<const RankHeader*>(member.memory);
    if (!fits || header->magic != kGroupMagic || header->ranks != ranks_.size() || header->rank != r)
      return base::error(StatusCode::corrupt, "rank {} offered memory at {} that is not its part of this group", ranks_[r], offers[r]);
    members.push_back(std::move(member));
  }
  return std::make_shared<SharedGroup>(std::exchange(parent_, nullptr), rank_, layout_, std::move(members));
}

}  // namespace slipring::engine
