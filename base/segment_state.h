// Inside of Segment: the header at the start of its file, and the state of one mapping. For segment*.cc only.
#pragma once

#include <atomic>
#include <boost/interprocess/mapped_region.hpp>
#include <mutex>

#include "base/file_descriptor.h"
#include "base/segment.h"
#include "base/segment_file.h"
#include "base/segment_space.h"

namespace slipring::base {

// The first header_bytes of the file; the user area follows. Written by the creator before `ready`; untrusted
// for whoever attaches.
struct SegmentHeader {
  static constexpr std::array<char, 8> kMagic{'S', 'L', 'I', 'P', 'S', 'E', 'G', '1'};

  std::array<char, 8> magic;
  std::uint64_t header_bytes;  ///< page size of the file
  std::uint64_t user_bytes;
  SegmentNonce nonce;
  /// SEGMENT_RESERVED: stored (release) by the creator's commit, loaded (acquire) by peers: a peer that sees
  /// N may touch the first N bytes of the user area.
  std::atomic<std::uint64_t> reserved_bytes;
  /// SEGMENT_READY: stored (release) by create once all the above is written, loaded (acquire) by attach.
  std::atomic<std::uint32_t> ready;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(SegmentHeader) <= 4096);

struct Segment::State {
  State() = default;
  ~State();  ///< as if sealed: also for a segment whose creation failed halfway

  SegmentAddress address;
  std::string tag;
  std::string note;
  boost::interprocess::mapped_region region;  ///< header and user area
  std::size_t header_bytes = 0;
  bool huge_pages = false;
  pid_t creator_pid = 0;  ///< 0 if attached; a fork()ed child is not the creator

  std::mutex mutex;  ///< guards the rest
  FileDescriptor fd;
  ReservedRanges reserved;  ///< offsets in the user area; creator only
  bool linked = false;      ///< the shm file still has its name
  bool sealed = false;

  /// Makes, sizes, reserves and maps a new file as `options` ask.
  Status open_new(const SegmentOptions& options);
  /// Fills the header and gives the file its name, so that peers can attach.
  Status publish();
  /// Reserves [begin, end) of the user area, page by page; the caller holds `mutex` or is alone.
  Status reserve(std::size_t begin, std::size_t end);
  /// Once sealed, drops the name and the descriptor as far as they are not needed any more; holds `mutex`.
  void close_what_is_done() noexcept;

  SegmentHeader& header() const { return *static_cast<SegmentHeader*>(region.get_address()); }

 private:
  Status open_huge(const SegmentOptions& options);
  Status open_plain(const SegmentOptions& options);
  Status adopt(SegmentFile file, const SegmentOptions& options);
};

/// Maps all of `bytes` of the file read/write; out_of_memory if the address space does not suffice.
Result<boost::interprocess::mapped_region> map_segment_file(int fd, std::size_t bytes, std::string_view tag);

/// The process's segments by nonce. An entry lives as long as the segment.
std::shared_ptr<Segment> find_mapped_segment(const SegmentNonce& nonce);
/// Enters `segment`, or returns the one that another thread has entered in the meantime.
std::shared_ptr<Segment> enter_mapped_segment(const SegmentNonce& nonce, std::shared_ptr<Segment> segment);

std::size_t page_bytes() noexcept;
constexpr std::size_t round_up(std::size_t value, std::size_t multiple) noexcept {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace slipring::base
