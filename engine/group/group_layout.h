// Where things lie in the segment of one rank of a communicator. Every rank of a node owns one such segment, writes
// its own parts and maps the others'. Sizes come from the configuration, which is the same on all ranks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/config.h"
#include "collectives/direct/rank_area.h"
#include "transports/shm/ring.h"

namespace slipring::engine {

/// | field       | only writer            | readers |
/// | ----------- | ---------------------- | ------- |
/// | magic .. rank | owner, before the address is told | peers |
/// | left        | owner                  | peers   |
/// | poison      | whoever fails first (claimed by compare-exchange); rank 0's segment only | all ranks |
/// | marks[peer] | that peer              | owner   |
/// | counters    | owner                  | tools   |
/// Edges: RANK_LEFT (left), PEER_DEPARTED (marks), POISONED (poison.state).
struct PoisonRecord {
  enum State : std::uint32_t { clean = 0, claimed = 1, poisoned = 2 };
  std::atomic<std::uint32_t> state;
  std::int32_t code;
  std::int32_t reporter;
  char text[1012];  ///< zero-terminated
};

struct RankHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t ranks;
  std::uint32_t rank;
  std::atomic<std::uint32_t> left;
  alignas(64) PoisonRecord poison;
  // followed by marks[ranks], then, at GroupLayout::counters_offset(), the owner's counters
};

/// Follows the header: peer r says in marks[r] that it maps this memory, and at last that it is through with it.
inline std::atomic<std::uint64_t>* marks_in(std::byte* memory) noexcept {
  return reinterpret_cast<std::atomic<std::uint64_t>*>(memory + sizeof(RankHeader));
}
inline constexpr std::uint64_t kDepartedMark = 0x4445504152544544;  // "DEPARTED"

inline constexpr std::uint64_t kGroupMagic = 0x31505247474e5253;  // "SRNGGRP1"
inline constexpr std::uint32_t kGroupVersion = 1;

/// Which ring between two ranks: point-to-point, agreements about further channels, then one per lane of plans.
inline constexpr int kPointToPointRing = 0;
inline constexpr int kControlRing = 1;
inline constexpr int kFirstPlanRing = 2;

struct GroupLayout {
  collectives::DirectShape direct;
  transports::RingShape ring;
  transports::RingShape control_ring;  ///< carries addresses only
  int plan_lanes = 1;

  GroupLayout(const base::ConfigValues& config, int ranks);

  int rings_per_peer() const noexcept { return kFirstPlanRing + plan_lanes; }
  const transports::RingShape& ring_shape(int ring_index) const noexcept { return ring_index == kControlRing ? control_ring : ring; }
  /// The owner's counters, laid out by base/counters.h for one rank.
  std::size_t counters_offset() const noexcept;
  std::size_t header_bytes() const noexcept;
  std::size_t direct_offset() const noexcept { return header_bytes(); }
  /// Control part of the ring from the owner to `peer`.
  std::size_t ring_control_offset(int peer, int ring_index) const noexcept;
  /// Its payload area: reserved when the ring is first used.
  std::size_t ring_payload_offset(int peer, int ring_index) const noexcept;
  std::size_t reserved_bytes() const noexcept { return ring_payload_offset(0, 0); }
  std::size_t total_bytes() const noexcept;

 private:
  /// Where the `index`-th ring of `peer` begins if each takes `bytes`, and the control ring `control_bytes`.
  std::size_t ring_place(int peer, int ring_index, std::size_t bytes, std::size_t control_bytes) const noexcept;
};

}  // namespace slipring::engine
