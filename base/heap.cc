#include "base/heap.h"

#include <algorithm>
#include <boost/interprocess/mem_algo/rbtree_best_fit.hpp>
#include <boost/interprocess/sync/mutex_family.hpp>
#include <new>

#include "base/segment_state.h"

namespace slipring::base {

// Best fit by size with its bookkeeping inside the segment, in front of each buffer. The heap's own mutex
// replaces the allocator's: only one process allocates.
using BestFit = boost::interprocess::rbtree_best_fit<boost::interprocess::null_mutex_family,
                                                     boost::interprocess::offset_ptr<void>>;
struct Heap::Allocator : BestFit {
  explicit Allocator(std::size_t bytes) : BestFit(bytes, 0) {}
};

namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPageAlignedFrom = std::size_t{1} << 20;
constexpr std::size_t kMinStepBytes = std::size_t{2} << 20;
// What the allocator may need around a buffer: its block headers, and the ends that alignment cuts off.
constexpr std::size_t kBlockSlackBytes = 256;

std::size_t alignment_for(std::size_t bytes) {
  return bytes >= kPageAlignedFrom ? std::max(kAlignment, page_bytes()) : kAlignment;
}

}  // namespace

Result<std::shared_ptr<Heap>> Heap::create(const HeapOptions& options) {
  const std::size_t max_bytes = options.max_bytes / page_bytes() * page_bytes();
  if (max_bytes == 0) {
    return error(StatusCode::invalid_argument, "heap.max_bytes {} is less than a page of {} bytes",
                 options.max_bytes, page_bytes());
  }
  const std::size_t first_bytes = std::min(max_bytes, kMinStepBytes);
  auto segment = Segment::create({.bytes = max_bytes,
                                  .reserve_bytes = first_bytes,
                                  .backing = options.backing,
                                  .huge_pages = options.huge_pages,
                                  .tag = options.tag});
  if (!segment) return segment.status();
  if (Status status = (*segment)->prefault(0, first_bytes); !status) return status;
  std::shared_ptr<Heap> heap(new Heap(std::move(*segment)));
  static_assert(sizeof(Allocator) == sizeof(BestFit));  // its area starts right behind it
  heap->allocator_ = new (heap->segment_->data()) Allocator(first_bytes);
  return heap;
}

Heap::Heap(std::shared_ptr<Segment> segment) : segment_(std::move(segment)) {}
Heap::~Heap() = default;

Result<std::byte*> Heap::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::size_t wanted = std::max<std::size_t>(bytes, 1);
  if (wanted > max_bytes()) return exhausted(wanted);
  // Rounded up so that two buffers never share a cache line.
  const std::size_t block_bytes = round_up(wanted, kAlignment);
  for (;;) {
    if (void* const pointer = allocator_->allocate_aligned(block_bytes, alignment_for(wanted))) {
      live_.emplace(pointer, bytes);
      return static_cast<std::byte*>(pointer);
    }
    if (Status status = grow(block_bytes + alignment_for(wanted) + kBlockSlackBytes); !status) {
      return status.code() == StatusCode::would_block ? exhausted(wanted) : status;
    }
  }
}

Status Heap::grow(std::size_t bytes) {
  const std::size_t size = allocator_->get_size();
  const std::size_t room = max_bytes() - size;
  if (room == 0) return Status(StatusCode::would_block, "all of the heap is committed");
  const std::size_t least = std::min(room, round_up(std::max(bytes, kMinStepBytes), page_bytes()));
  const std::size_t generous = std::min(room, std::max(least, size / 2 / page_bytes() * page_bytes()));
  std::size_t step = generous;
  Status status = segment_->prefault(size, step);
  if (status.code() == StatusCode::out_of_memory && least < generous) {
    step = least;
    status = segment_->prefault(size, step);
  }
  if (!status) {
    return std::move(status).with(
        fmt::format("heap: wanted {} bytes, {} committed of heap.max_bytes {}", bytes, size, max_bytes()));
  }
  allocator_->grow(step);
  return {};
}

Status Heap::exhausted(std::size_t wanted) const {
  return error(
      StatusCode::out_of_memory,
      "heap: wanted {} bytes, free {} of {} bytes in {} buffers, not in one piece; raise heap.max_bytes",
      wanted, allocator_->get_free_memory() + (max_bytes() - allocator_->get_size()), max_bytes(),
      live_.size());
}

Status Heap::free(void* pointer) {
  if (pointer == nullptr) return {};
  const std::lock_guard lock(mutex_);
  if (live_.erase(pointer) == 0) {
    return error(StatusCode::invalid_argument, "heap: free of {} which is no buffer of this heap: {}",
                 fmt::ptr(pointer),
                 contains(pointer, 1) ? "freed before, or the middle of a buffer" : "not from this heap");
  }
  allocator_->deallocate(pointer);
  return {};
}

bool Heap::contains(const void* pointer, std::size_t bytes) const noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(pointer);
  const auto begin = reinterpret_cast<std::uintptr_t>(segment_->data());
  const std::size_t committed = segment_->reserved_bytes();
  return at >= begin && at - begin <= committed && bytes <= committed - (at - begin);
}

std::size_t Heap::offset_of(const void* pointer) const noexcept {
  return static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - segment_->data());
}

std::size_t Heap::live_buffers() const {
  const std::lock_guard lock(mutex_);
  return live_.size();
}

Result<HeapView> HeapView::attach(std::string_view address, const Deadline& deadline) {
  auto segment = Segment::attach(address, deadline);
  if (!segment) return std::move(segment).status().with("attaching to a peer's heap");
  return HeapView(std::move(*segment));
}

Result<std::byte*> HeapView::at(std::size_t offset, std::size_t bytes) const {
  const std::size_t reserved = segment_->reserved_bytes();
  if (offset <= reserved && bytes <= reserved - offset) return segment_->data() + offset;
  return error(StatusCode::corrupt, "heap {}: offset {} bytes {} is beyond the {} bytes reserved",
               segment_->tag(), offset, bytes, reserved);
}

}  // namespace slipring::base
