#include "engine/group/group_layout.h"

#include <algorithm>
#include <bit>

#include "base/counters.h"
#include "transports/shm/shm_channel.h"

namespace slipring::engine {
namespace {
constexpr std::size_t kPage = 4096;
constexpr int kDefaultPlanLanes = 2;
constexpr std::uint32_t kControlSlots = 16, kControlBytes = 8192;
std::size_t pages(std::size_t bytes) noexcept { return (bytes + kPage - 1) / kPage * kPage; }
}  // namespace

GroupLayout::GroupLayout(const base::ConfigValues& config, int ranks) {
  const auto start = static_cast<std::uint64_t>(config.test_counter_start);
  direct.ranks = ranks;
  // Every rank reads the boxes of all others, so what one-shot may move is shared among them.
  direct.box_bytes = static_cast<std::size_t>(config.direct_one_shot_max_bytes) / static_cast<std::size_t>(std::max(1, ranks - 1));
  direct.box_bytes = std::max<std::size_t>(direct.box_bytes / 64 * 64, 64);
  direct.chunk_bytes = static_cast<std::size_t>(config.direct_chunk_bytes) / 64 * 64;
  direct.start = start;
  ring.slots = std::bit_ceil(static_cast<std::uint32_t>(config.channel_slots));
  ring.payload_bytes = static_cast<std::uint32_t>(pages(static_cast<std::size_t>(config.channel_bytes)));
  ring.start = start;
  control_ring = {.slots = kControlSlots, .payload_bytes = kControlBytes, .start = start};
  plan_lanes = config.plan_rings < 0 ? kDefaultPlanLanes : static_cast<int>(config.plan_rings);
}

std::size_t GroupLayout::counters_offset() const noexcept {
  return (sizeof(RankHeader) + static_cast<std::size_t>(direct.ranks) * sizeof(std::uint64_t) + 63) / 64 * 64;
}

std::size_t GroupLayout::header_bytes() const noexcept { return pages(counters_offset() + base::counters_bytes(1)); }

std::size_t GroupLayout::ring_place(int peer, int ring_index, std::size_t bytes, std::size_t control_bytes) const noexcept {
  const auto before = [&](int index) { return static_cast<std::size_t>(index) * bytes + (index > kControlRing ? control_bytes - bytes : 0); };
  return static_cast<std::size_t>(peer) * before(rings_per_peer()) + before(ring_index);
}

std::size_t GroupLayout::ring_control_offset(int peer, int ring_index) const noexcept {
  return direct_offset() + direct.area_bytes() +
         ring_place(peer, ring_index, transports::shm_ring_control_bytes(ring), transports::shm_ring_control_bytes(control_ring));
}

std::size_t GroupLayout::ring_payload_offset(int peer, int ring_index) const noexcept {
  return pages(ring_control_offset(direct.ranks, 0)) + ring_place(peer, ring_index, ring.payload_bytes, control_ring.payload_bytes);
}

std::size_t GroupLayout::total_bytes() const noexcept { return ring_payload_offset(direct.ranks, 0); }

}  // namespace slipring::engine
