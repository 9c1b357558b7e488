#include "base/counters.h"

#include <cstring>
#include <new>

#include "base/status.h"

namespace slipring::base {
namespace {

constexpr std::size_t kLineBytes = 64;

struct ListedCounter {
  std::string_view name;
  std::string_view meaning;
};
constexpr ListedCounter kListed[] = {
#define SLIPRING_COUNTER(name, meaning) {#name, meaning},
#include "base/counters_list.def"
};
static_assert(std::size(kListed) == kCounterCount);
#define SLIPRING_COUNTER(name, meaning) \
  static_assert(sizeof(#name) <= kCounterNameBytes, "the name of a counter has at most 31 characters");
#include "base/counters_list.def"
static_assert(sizeof(Counter) == sizeof(std::uint64_t));

constexpr std::size_t round_up(std::size_t bytes) {
  return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}

constexpr std::size_t kNamesOffset = kLineBytes;
constexpr std::size_t kBlocksOffset = round_up(kNamesOffset + kCounterCount * kCounterNameBytes);
static_assert(sizeof(CounterBlock) % kLineBytes == 0);
static_assert(offsetof(CounterBlock, operations) == 0);

/// The bytes of the range lie within `total`; no step of the check can overflow.
bool fits(std::uint64_t offset, std::uint64_t items, std::uint64_t item_bytes, std::uint64_t total) {
  return offset <= total && (item_bytes == 0 || items <= (total - offset) / item_bytes);
}

bool is_aligned(const std::byte* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % kLineBytes == 0;
}

}  // namespace

std::size_t counters_bytes(int ranks) noexcept {
  return kBlocksOffset + static_cast<std::size_t>(ranks) * sizeof(CounterBlock);
}

Status format_counters(std::span<std::byte> memory, int ranks) {
  if (ranks < 1 || memory.size() < counters_bytes(ranks) || !is_aligned(memory.data())) {
    return error(
        StatusCode::invalid_argument,
        "counters of ranks {} do not fit into memory of bytes {} at {}: give 64-byte aligned bytes {}", ranks,
        memory.size(), static_cast<const void*>(memory.data()), counters_bytes(ranks < 1 ? 1 : ranks));
  }
  std::byte* const base = memory.data();
  std::memset(base, 0, counters_bytes(ranks));
  for (std::size_t i = 0; i < kCounterCount; ++i)
    std::memcpy(base + kNamesOffset + i * kCounterNameBytes, kListed[i].name.data(), kListed[i].name.size());
  for (int rank = 0; rank < ranks; ++rank)
    new (base + kBlocksOffset + static_cast<std::size_t>(rank) * sizeof(CounterBlock)) CounterBlock;

  auto* header = new (base) CountersHeader{};
  header->version = kCountersVersion;
  header->ranks = static_cast<std::uint32_t>(ranks);
  header->counters = kCounterCount;
  header->name_bytes = kCounterNameBytes;
  header->names_offset = kNamesOffset;
  header->blocks_offset = kBlocksOffset;
  header->block_stride_bytes = sizeof(CounterBlock);
  header->total_bytes = counters_bytes(ranks);
  // release: pairs with the acquire in CountersView::open, which then sees the whole layout
  header->magic.store(kCountersMagic, std::memory_order_release);
  return {};
}

Result<CounterBlock*> counter_block(std::span<std::byte> memory, int rank) {
  Result<CountersView> view = CountersView::open(memory);
  if (!view) return std::move(view).status();
  bool same = view->counters() == kCounterCount;
  for (std::size_t i = 0; same && i < kCounterCount; ++i) same = view->name(i) == kListed[i].name;
  if (!same) {
    return error(
        StatusCode::mismatch,
        "counters {} in the segment differ from the {} of this build: all ranks of a job run one build",
        view->counters(), kCounterCount);
  }
  if (rank < 0 || rank >= view->ranks())
    return error(StatusCode::invalid_argument, "no counters for rank {} of {}", rank, view->ranks());
  const std::size_t offset = kBlocksOffset + static_cast<std::size_t>(rank) * sizeof(CounterBlock);
  return std::launder(reinterpret_cast<CounterBlock*>(memory.data() + offset));
}

Result<CountersView> CountersView::open(std::span<const std::byte> memory) {
  if (memory.size() < sizeof(CountersHeader) || !is_aligned(memory.data())) {
    return error(StatusCode::corrupt, "counters: memory of bytes {} holds no aligned header of bytes {}",
                 memory.size(), sizeof(CountersHeader));
  }
  const auto* header = std::launder(reinterpret_cast<const CountersHeader*>(memory.data()));
  // acquire: pairs with the release in format_counters
  const std::uint64_t magic = header->magic.load(std::memory_order_acquire);
  if (magic != kCountersMagic)
    return error(StatusCode::corrupt, "counters: magic {:#x} is not {:#x}", magic, kCountersMagic);
  if (header->version != kCountersVersion) {
    return error(StatusCode::unsupported, "counters: layout version {} cannot be read, this build knows {}",
                 header->version, kCountersVersion);
  }

  CountersView view;
  view.base_ = memory.data();
  view.ranks_ = header->ranks;
  view.counters_ = header->counters;
  view.names_offset_ = header->names_offset;
  view.blocks_offset_ = header->blocks_offset;
  view.block_stride_bytes_ = header->block_stride_bytes;
  const bool aligned = view.blocks_offset_ % kLineBytes == 0 && view.block_stride_bytes_ % kLineBytes == 0;
  const bool sane = aligned && header->name_bytes == kCounterNameBytes && view.ranks_ >= 1 &&
                    view.ranks_ <= static_cast<std::uint32_t>(INT32_MAX) &&
                    fits(0, view.counters_, sizeof(Counter), view.block_stride_bytes_) &&
                    fits(view.names_offset_, view.counters_, kCounterNameBytes, memory.size()) &&
                    fits(view.blocks_offset_, view.ranks_, view.block_stride_bytes_, memory.size());
  if (!sane) {
    return error(StatusCode::corrupt,
                 "counters: header of ranks {} counters {} stride {} does not fit memory of bytes {}",
                 view.ranks_, view.counters_, view.block_stride_bytes_, memory.size());
  }
  return view;
}

std::string_view CountersView::name(std::size_t index) const noexcept {
  const auto* text = reinterpret_cast<const char*>(base_ + names_offset_ + index * kCounterNameBytes);
  return {text, ::strnlen(text, kCounterNameBytes)};
}

std::optional<std::size_t> CountersView::index_of(std::string_view wanted) const noexcept {
  for (std::size_t i = 0; i < counters_; ++i)
    if (name(i) == wanted) return i;
  return std::nullopt;
}

std::uint64_t CountersView::value(int rank, std::size_t index) const noexcept {
  const std::byte* block = base_ + blocks_offset_ + static_cast<std::uint64_t>(rank) * block_stride_bytes_;
  return std::launder(reinterpret_cast<const Counter*>(block + index * sizeof(Counter)))->value();
}

std::string_view CountersView::meaning(std::string_view name) noexcept {
  for (const ListedCounter& listed : kListed)
    if (listed.name == name) return listed.meaning;
  return {};
}

}  // namespace slipring::base
