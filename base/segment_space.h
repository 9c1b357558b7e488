// Reserving the space behind a segment's file, so that no later access can meet a full filesystem or a memory
// limit (SIGBUS, out-of-memory kill). ReservedRanges remembers what is reserved; reserve_file_space does it.
// Not thread-safe: the segment's mutex guards both. Failure leaves the file as it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/segment_address.h"
#include "base/status.h"

namespace slipring::base {

/// A set of byte offsets, as disjoint ranges.
class ReservedRanges {
 public:
  using Range = std::pair<std::size_t, std::size_t>;  ///< begin, end

  void add(std::size_t begin, std::size_t end);
  void remove(std::size_t begin, std::size_t end);
  /// The parts of [begin, end) that are in the set.
  std::vector<Range> parts(std::size_t begin, std::size_t end) const;
  /// The parts of [begin, end) that are not in the set.
  std::vector<Range> gaps(std::size_t begin, std::size_t end) const;
  /// End of the range that starts at 0; 0 if there is none.
  std::size_t prefix() const;

 private:
  std::map<std::size_t, std::size_t> end_by_begin_;
};

/// What is reserved, where, and for whom: the words of the error.
struct SpaceRequest {
  int fd = -1;
  std::byte* mapping = nullptr;  ///< of the whole file, or nullptr if it is not mapped yet
  std::size_t begin = 0;
  std::size_t end = 0;
  SegmentBacking backing = SegmentBacking::memfd;
  bool huge_pages = false;
  std::string tag;
};

/// All of the request or nothing. The range must not have been reserved before (a failure gives it back).
Status reserve_file_space(const SpaceRequest& request);
/// Gives reserved space back, contents and all. False if that is denied.
bool release_file_space(int fd, std::size_t begin, std::size_t end) noexcept;

/// Bytes that this process can still get: the machine's available memory and the control group's limit.
std::uint64_t available_memory_bytes();

}  // namespace slipring::base
