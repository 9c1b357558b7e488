// The file behind a new segment: a memfd, or a file in /dev/shm whose creator holds a lock on it as long as
// it has a name; a file there that nobody holds is left from a killed process and is removed. For segment*.cc
// only.
#pragma once

#include <string>

#include "base/file_descriptor.h"
#include "base/segment_address.h"
#include "base/status.h"

namespace slipring::base {

inline constexpr const char* kMemfdName = "slipring";

struct SegmentFile {
  FileDescriptor fd;
  bool has_name = false;  ///< shm: the file is linked already
  std::size_t page_bytes = 0;
};

/// Empty, close-on-exec, readable and writable by this user only.
Result<SegmentFile> make_memfd(bool huge_pages);
Result<SegmentFile> make_shm_file(const SegmentAddress& address);
/// Gives an unnamed shm file its name.
Status link_shm_file(int fd, const SegmentAddress& address);
/// Removes the shm files of processes that are gone.
void remove_stale_shm_files() noexcept;

}  // namespace slipring::base
