// Heap: user buffers in a segment, so that the other ranks of the node reach them without a copy. One per
// rank; only that rank allocates and frees, any of its threads may. Peers reach a buffer through a HeapView
// by its offset.
//
//   auto heap = Heap::create({.max_bytes = 1 << 30});          auto view = HeapView::attach(address,
//   deadline); std::byte* mine = *(*heap)->allocate(bytes);               std::byte* same = *view->at(offset,
//   bytes); send_to_peer((*heap)->address(), (*heap)->offset_of(mine), bytes);
//
// max_bytes is address space only; memory is reserved and mapped in growing steps when allocate needs it, and
// kept until the heap goes. Wrong: using a peer's offset after that peer freed it; writing outside a buffer,
// which can destroy the heap as it can destroy malloc's. Failures are Status values; none changes the heap.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/segment.h"

namespace slipring::base {

struct HeapOptions {
  std::size_t max_bytes = std::size_t{16} << 30;
  SegmentBacking backing = SegmentBacking::memfd;
  HugePages huge_pages = HugePages::off;
  std::string tag = "heap";
};

class Heap {
 public:
  static Result<std::shared_ptr<Heap>> create(const HeapOptions& options);
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  /// 64-byte aligned, page-aligned from 1 MiB on; contents unspecified; its pages are mapped already.
  /// out_of_memory when heap.max_bytes, /dev/shm or the machine's memory is exhausted.
  Result<std::byte*> allocate(std::size_t bytes);
  /// invalid_argument for a pointer that allocate did not return or that has been freed; nullptr is ok.
  Status free(void* pointer);

  /// Whether all of [pointer, pointer + bytes) lies in the heap. No lock: for the hot path.
  bool contains(const void* pointer, std::size_t bytes) const noexcept;
  /// What a peer's HeapView::at takes; `pointer` must be contained.
  std::size_t offset_of(const void* pointer) const noexcept;

  std::string address() const { return segment_->address(); }
  const std::string& note() const noexcept { return segment_->note(); }
  /// See Segment: every peer has attached.
  void seal_attach() noexcept { segment_->seal_attach(); }

  std::size_t max_bytes() const noexcept { return segment_->size(); }
  std::size_t committed_bytes() const noexcept { return segment_->reserved_bytes(); }
  std::size_t live_buffers() const;

 private:
  struct Allocator;
  explicit Heap(std::shared_ptr<Segment> segment);
  /// Enlarges the allocator's area so that `bytes` more can fit; holds mutex_.
  Status grow(std::size_t bytes);
  Status exhausted(std::size_t wanted) const;

  const std::shared_ptr<Segment> segment_;
  mutable std::mutex mutex_;                     ///< guards the rest
  Allocator* allocator_ = nullptr;               ///< at the start of the segment
  std::unordered_map<void*, std::size_t> live_;  ///< buffers in use, by address; bytes as asked for
};

/// A peer's heap, mapped here. Cheap to copy; any thread.
class HeapView {
 public:
  static Result<HeapView> attach(std::string_view address, const Deadline& deadline);
  /// The buffer at a peer's offset. Both numbers are untrusted; outside of what the peer has reserved is
  /// corrupt.
  Result<std::byte*> at(std::size_t offset, std::size_t bytes) const;

 private:
  explicit HeapView(std::shared_ptr<Segment> segment) : segment_(std::move(segment)) {}
  std::shared_ptr<Segment> segment_;
};

}  // namespace slipring::base
