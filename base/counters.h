// Counters in shared memory: what the ranks of a node did, readable by another process that maps the memory
// read-only, also one of another version.
//
//   writer   format_counters(memory, ranks) once, by whoever makes the segment; then, on each rank,
//            CounterBlock* counters = *counter_block(memory, rank); ... counters->operations.add(1);
//   reader   CountersView view = *CountersView::open(memory); view.value(rank, *view.index_of("operations"))
//
// Layout, all integers native and fixed in size, everything at a multiple of 64 bytes:
//   CountersHeader | names: counters x char[32], zero padded | rank 0's block | rank 1's block | ...
// The memory belongs to the caller and outlives blocks and views. Each cell has one writing thread at a
// time; any number of readers at any time. Without a segment (counters.enabled = false) a rank counts into a
// CounterBlock of its own, so that counting needs no branch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "slipring/status.h"

namespace slipring::base {

/// One cell with a single writer. Not a read-modify-write: on the writer's own line an add is a plain load,
/// add and store.
class Counter {
 public:
  void add(std::uint64_t amount) noexcept { set(value() + amount); }
  // relaxed, both: a cell is a statistic that guards no other data, and only its own thread writes it
  void set(std::uint64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
  std::uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
};

struct alignas(64) CounterBlock {
#define SLIPRING_COUNTER(name, meaning) Counter name;
#include "base/counters_list.def"
};

inline constexpr std::size_t kCounterCount = 0
#define SLIPRING_COUNTER(name, meaning) +1
#include "base/counters_list.def"
    ;

inline constexpr std::size_t kCounterNameBytes = 32;

struct CountersHeader {
  std::atomic<std::uint64_t> magic;  ///< kCountersMagic once all else is written
  std::uint32_t version;             ///< of the layout; another list of counters is not another layout
  std::uint32_t ranks;
  std::uint32_t counters;  ///< cells per block
  std::uint32_t name_bytes;
  std::uint64_t names_offset;
  std::uint64_t blocks_offset;
  std::uint64_t block_stride_bytes;
  std::uint64_t total_bytes;
};
static_assert(sizeof(CountersHeader) <= 64);

inline constexpr std::uint64_t kCountersMagic = 0x31544e4352504c53;  // "SLPRCNT1" in memory
inline constexpr std::uint32_t kCountersVersion = 1;

/// Bytes that format_counters needs for that many ranks.
std::size_t counters_bytes(int ranks) noexcept;

/// Lays the counters of `ranks` ranks out in `memory`, all zero. invalid_argument when memory is too small or
/// not 64-byte aligned.
Status format_counters(std::span<std::byte> memory, int ranks);

/// The block that `rank` counts into, as a pointer to keep. mismatch when the memory was formatted by a build
/// with other counters, corrupt when it was not formatted.
Result<CounterBlock*> counter_block(std::span<std::byte> memory, int rank);

/// Reads counters out of memory that may hold anything: whatever is used of the header was checked against
/// the memory's size, once, in open().
class CountersView {
 public:
  static Result<CountersView> open(std::span<const std::byte> memory);

  int ranks() const noexcept { return static_cast<int>(ranks_); }
  std::size_t counters() const noexcept { return counters_; }
  /// index < counters()
  std::string_view name(std::size_t index) const noexcept;
  std::optional<std::size_t> index_of(std::string_view name) const noexcept;
  /// rank < ranks(), index < counters()
  std::uint64_t value(int rank, std::size_t index) const noexcept;
  /// What this build knows about a counter, empty when it knows none of that name.
  static std::string_view meaning(std::string_view name) noexcept;

 private:
  CountersView() = default;
  const std::byte* base_ = nullptr;
  std::uint32_t ranks_ = 0;
  std::uint32_t counters_ = 0;
  std::uint64_t names_offset_ = 0;
  std::uint64_t blocks_offset_ = 0;
  std::uint64_t block_stride_bytes_ = 0;
};

}  // namespace slipring::base
