// The shared memory through which one rank takes part in direct collectives: one area per rank, written by its
// owner, read by the other ranks of the communicator.
//
// | field                   | only writer | readers | cache line |
// | ----------------------- | ----------- | ------- | ---------- |
// | publications[k & 1]     | owner       | peers   | own        |
// | staged, reduced         | owner       | peers   | own each   |
// | boxes[k & 1]            | owner       | peers   | many       |
// | slots[g % kStagingSlots]| owner       | peers   | many       |
// | doorbell                | see base/wait.h              |
//
// k counts the operations of the communicator, g its chunks; both run alike on every rank. Edges
// (docs/memory_model.md): OPERATION_PUBLISHED, CHUNK_STAGED, CHUNK_REDUCED. The memory is mapped by whoever made
// the DirectGroup and outlives it. Everything here must be zero, or set by init_rank_area, before use.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/heap.h"
#include "base/lent_threads.h"
#include "base/wait.h"

namespace slipring::collectives {

inline constexpr std::size_t kPublicationBytes = 48;
/// A slot is written again four chunks later; by then every reader has told that it is past it (two_phase.cc).
inline constexpr unsigned kStagingSlots = 4;

/// One operation of one rank: the line that says "I have come to operation k, this is what I was asked to do,
/// and my data lies here / in my box / in my heap".
struct alignas(64) Publication {
  std::atomic<std::uint64_t> sequence;
  std::uint64_t fingerprint;
  std::byte payload[kPublicationBytes];
};

struct alignas(64) ProgressLine {
  std::atomic<std::uint64_t> chunks;
};

struct RankControl {
  base::Doorbell doorbell;
  Publication publications[2];
  ProgressLine staged;   // chunks staged by the owner
  ProgressLine reduced;  // chunks whose part of the owner is reduced (or, in a broadcast, copied out)
};

/// Sizes, equal on all ranks.
struct DirectShape {
  int ranks = 1;
  std::size_t box_bytes = 0;    ///< largest one-shot payload
  std::size_t chunk_bytes = 0;  ///< size of a staging slot
  std::uint64_t start = 0;      ///< where k and g begin

  std::size_t area_bytes() const noexcept {
    return padded(sizeof(RankControl)) + 2 * padded(box_bytes) + kStagingSlots * padded(chunk_bytes);
  }
  std::size_t box_offset(unsigned parity) const noexcept {
    return padded(sizeof(RankControl)) + parity * padded(box_bytes);
  }
  std::size_t slot_offset(std::uint64_t g) const noexcept {
    return padded(sizeof(RankControl)) + 2 * padded(box_bytes) + g % kStagingSlots * padded(chunk_bytes);
  }
  /// Pages, so that no two ranks' data share one.
  static std::size_t padded(std::size_t bytes) noexcept { return (bytes + 4095) / 4096 * 4096; }
};

/// Sets the counters of a zeroed area to the shape's start. Before any other rank may look at it.
inline void init_rank_area(std::byte* area, const DirectShape& shape) noexcept {
  auto* control = reinterpret_cast<RankControl*>(area);
  // relaxed: whoever hands the area to the other ranks orders these stores.
  for (Publication& p : control->publications) p.sequence.store(shape.start, std::memory_order_relaxed);
  control->staged.chunks.store(shape.start, std::memory_order_relaxed);
  control->reduced.chunks.store(shape.start, std::memory_order_relaxed);
}

/// Where user buffers lie that peers reach without a copy; nothing if the job has no heaps.
struct GroupHeaps {
  std::shared_ptr<base::Heap> own;
  std::vector<base::HeapView> all;  ///< by rank, the own one included
};

/// Makes a range of the own area usable; called before its first use, again and again for the same range.
using CommitArea = std::function<Status(std::size_t offset, std::size_t bytes)>;

/// One rank's view of all areas.
class DirectGroup {
 public:
  DirectGroup(int rank, const DirectShape& shape, std::vector<std::byte*> areas, GroupHeaps heaps, CommitArea commit,
              std::shared_ptr<base::LentThreads> threads)
      : rank_(rank), shape_(shape), areas_(std::move(areas)), heaps_(std::move(heaps)), commit_(std::move(commit)),
        threads_(std::move(threads)) {}

  int rank() const noexcept { return rank_; }
  int ranks() const noexcept { return shape_.ranks; }
  const DirectShape& shape() const noexcept { return shape_; }
  RankControl& control(int rank) const noexcept { return *reinterpret_cast<RankControl*>(areas_[rank]); }
  std::byte* box(int rank, unsigned parity) const noexcept { return areas_[rank] + shape_.box_offset(parity); }
  std::byte* slot(int rank, std::uint64_t g) const noexcept { return areas_[rank] + shape_.slot_offset(g); }
  const GroupHeaps& heaps() const noexcept { return heaps_; }
  base::LentThreads* threads() const noexcept { return threads_.get(); }
  /// Memory of the own boxes, or slots: to be had before the first of them is written. Most groups never need the slots.
  Status commit_boxes() const { return commit_(shape_.box_offset(0), shape_.slot_offset(0) - shape_.box_offset(0)); }
  Status commit_slots() const { return commit_(shape_.slot_offset(0), shape_.area_bytes() - shape_.slot_offset(0)); }

 private:
  int rank_;
  DirectShape shape_;
  std::vector<std::byte*> areas_;
  GroupHeaps heaps_;
  CommitArea commit_;
  std::shared_ptr<base::LentThreads> threads_;
};

}  // namespace slipring::collectives
