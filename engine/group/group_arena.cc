#include "engine/group/group_arena.h"

#include <algorithm>
#include <iterator>

#include "base/status.h"

namespace slipring::engine {
namespace {
constexpr std::size_t kPage = 4096;
std::size_t pages(std::size_t bytes) noexcept { return (bytes + kPage - 1) / kPage * kPage; }
}  // namespace

GroupArena::GroupArena(std::shared_ptr<base::Segment> segment) : segment_(std::move(segment)) {
  free_.emplace(0, segment_->size() / kPage * kPage);
}

Result<std::size_t> GroupArena::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  reclaim();
  bytes = pages(bytes);
  const auto at = std::find_if(free_.begin(), free_.end(), [&](const auto& range) { return range.second >= bytes; });
  if (at == free_.end())
    return base::error(StatusCode::out_of_memory, "no room for a group that needs {} bytes of address space, of {} in all; close "
                       "groups that are not needed, or raise group.max_bytes", bytes, segment_->size());
  const auto [offset, length] = *at;
  free_.erase(at);
  if (length > bytes) free_.emplace(offset + bytes, length - bytes);
  return offset;
}

void GroupArena::retire(std::size_t offset, std::size_t bytes, std::function<bool()> unused) {
  const std::lock_guard lock(mutex_);
  retired_.push_back({offset, pages(bytes), std::move(unused)});
  reclaim();
}

void GroupArena::reclaim() {
  std::erase_if(retired_, [&](const Retired& region) {
    if (!region.unused()) return false;
    give_back(region.offset, region.bytes);
    return true;
  });
}

void GroupArena::give_back(std::size_t offset, std::size_t bytes) {
  // Fails only for ranges that are none of the segment's.
  (void)segment_->decommit(offset, bytes);
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin())
    if (const auto before = std::prev(next); before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  free_.emplace(offset, bytes);
}

std::size_t GroupArena::taken_bytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t unused = 0;
  for (const auto& [offset, bytes] : free_) unused += bytes;
  return segment_->size() / kPage * kPage - unused;
}

}  // namespace slipring::engine
