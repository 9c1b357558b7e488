#include "base/segment_space.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <system_error>

#include "base/cgroup.h"
#include "base/syscalls.h"

namespace slipring::base {

namespace {

// A signal makes the kernel undo a fallocate and return EINTR; pieces of this size take about a millisecond,
// so that a profiler's timer cannot keep a large one from ever finishing.
constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

std::uint64_t shm_free_bytes() {
  struct statvfs fs {};
  if (::statvfs("/dev/shm", &fs) != 0) return 0;
  return static_cast<std::uint64_t>(fs.f_bavail) * fs.f_frsize;
}

Status out_of_space(const SpaceRequest& request, std::string_view cause, std::uint64_t free_bytes) {
  const std::size_t needed = request.end - request.begin;
  if (request.backing == SegmentBacking::shm) {
    return error(
        StatusCode::out_of_memory,
        "segment {}: {}, path /dev/shm, needed {} bytes, free {} bytes; raise the container's --shm-size "
        "or the pod's /dev/shm emptyDir sizeLimit, or set segment.backing = \"memfd\"",
        request.tag, cause, needed, free_bytes);
  }
  if (request.huge_pages) {
    return error(StatusCode::out_of_memory,
                 "segment {}: {}, path memfd, needed {} bytes of huge pages; raise vm.nr_hugepages or set "
                 "segment.huge_pages = \"off\"",
                 request.tag, cause, needed);
  }
  return error(
      StatusCode::out_of_memory,
      "segment {}: {}, path memfd, needed {} bytes, free {} bytes; raise the container's memory limit or "
      "use smaller segments and heaps",
      request.tag, cause, needed, free_bytes);
}

// The kernel answers a request beyond the memory limit by killing a process, so it is refused beforehand.
Status check_limits(const SpaceRequest& request) {
  if (request.huge_pages) return {};
  const std::size_t needed = request.end - request.begin;
  if (request.backing == SegmentBacking::shm && shm_free_bytes() < needed) {
    return out_of_space(request, "the filesystem is full", shm_free_bytes());
  }
  const std::uint64_t memory = available_memory_bytes();
  if (memory < needed) return out_of_space(request, "memory is exhausted", memory);
  return {};
}

int fallocate_retrying(int fd, int mode, std::size_t offset, std::size_t bytes) {
  for (;;) {
    if (syscalls().fallocate(fd, mode, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0) return 0;
    if (errno != EINTR) return errno;
  }
}

// Stands in for a denied fallocate. Populating through the mapping returns EFAULT where a plain store would
// get SIGBUS; before the file is mapped, or where that is denied too, zeros are written to the fresh range.
int reserve_without_fallocate(const SpaceRequest& request, std::size_t begin, std::size_t end) {
  if (request.mapping != nullptr) {
    if (syscalls().madvise(request.mapping + begin, end - begin, MADV_POPULATE_WRITE) == 0) return 0;
    if (errno == EFAULT || errno == ENOMEM) return ENOSPC;
  }
  const std::vector<char> zeros(std::min(end - begin, kPieceBytes));
  while (begin < end) {
    const ssize_t wrote =
        ::pwrite(request.fd, zeros.data(), std::min(end - begin, zeros.size()), static_cast<off_t>(begin));
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return wrote == 0 ? ENOSPC : errno;
    begin += static_cast<std::size_t>(wrote);
  }
  return 0;
}

bool is_denial(int error_number) {
  return error_number == EPERM || error_number == ENOSYS || error_number == EOPNOTSUPP ||
         error_number == EACCES;
}

int reserve_piece(const SpaceRequest& request, std::size_t begin, std::size_t end) {
  const int failure = fallocate_retrying(request.fd, 0, begin, end - begin);
  return is_denial(failure) ? reserve_without_fallocate(request, begin, end) : failure;
}

}  // namespace

void ReservedRanges::add(std::size_t begin, std::size_t end) {
  if (begin >= end) return;
  auto at = end_by_begin_.upper_bound(begin);
  if (at != end_by_begin_.begin() && std::prev(at)->second >= begin) {
    --at;
    begin = at->first;
    end = std::max(end, at->second);
  }
  while (at != end_by_begin_.end() && at->first <= end) {
    end = std::max(end, at->second);
    at = end_by_begin_.erase(at);
  }
  end_by_begin_.emplace(begin, end);
}

std::vector<ReservedRanges::Range> ReservedRanges::gaps(std::size_t begin, std::size_t end) const {
  std::vector<Range> found;
  auto at = end_by_begin_.upper_bound(begin);
  if (at != end_by_begin_.begin()) begin = std::max(begin, std::prev(at)->second);
  for (; begin < end; ++at) {
    const std::size_t next = at == end_by_begin_.end() ? end : std::min(end, at->first);
    if (begin < next) found.emplace_back(begin, next);
    if (at == end_by_begin_.end()) break;
    begin = std::max(begin, at->second);
  }
  return found;
}

void ReservedRanges::remove(std::size_t begin, std::size_t end) {
  for (const auto& [part_begin, part_end] : parts(begin, end)) {
    const auto around = std::prev(end_by_begin_.upper_bound(part_begin));
    const Range whole = *around;
    end_by_begin_.erase(around);
    if (whole.first < part_begin) end_by_begin_.emplace(whole.first, part_begin);
    if (part_end < whole.second) end_by_begin_.emplace(part_end, whole.second);
  }
}

std::vector<ReservedRanges::Range> ReservedRanges::parts(std::size_t begin, std::size_t end) const {
  std::vector<Range> found;
  auto at = end_by_begin_.upper_bound(begin);
  if (at != end_by_begin_.begin()) --at;
  for (; at != end_by_begin_.end() && at->first < end; ++at) {
    const Range part{std::max(begin, at->first), std::min(end, at->second)};
    if (part.first < part.second) found.push_back(part);
  }
  return found;
}

std::size_t ReservedRanges::prefix() const {
  const auto first = end_by_begin_.find(0);
  return first == end_by_begin_.end() ? 0 : first->second;
}

Status reserve_file_space(const SpaceRequest& request) {
  if (request.begin >= request.end) return {};
  if (Status limits = check_limits(request); !limits) return limits;
  // One call for huge pages: a piece must be a multiple of their size, which may be 1 GiB.
  const std::size_t piece_bytes = request.huge_pages ? request.end - request.begin : kPieceBytes;
  for (std::size_t begin = request.begin; begin < request.end; begin += piece_bytes) {
    const std::size_t end = std::min(request.end, begin + piece_bytes);
    const int failure = reserve_piece(request, begin, end);
    if (failure == 0) continue;
    const std::uint64_t free_bytes =
        request.backing == SegmentBacking::shm ? shm_free_bytes() : available_memory_bytes();
    release_file_space(request.fd, request.begin, end);
    if (failure == ENOSPC || failure == ENOMEM || failure == EDQUOT || failure == EFBIG) {
      return out_of_space(request, fmt::format("no space: {}", std::generic_category().message(failure)),
                          free_bytes);
    }
    return errno_error(failure, fmt::format("segment {}: reserving {} bytes with fallocate", request.tag,
                                            request.end - request.begin));
  }
  return {};
}

bool release_file_space(int fd, std::size_t begin, std::size_t end) noexcept {
  return fallocate_retrying(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, begin, end - begin) == 0;
}

std::uint64_t available_memory_bytes() {
  std::uint64_t available = std::numeric_limits<std::uint64_t>::max();
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  std::string unit;
  std::uint64_t kib = 0;
  std::uint64_t sum = 0;
  bool found = false;
  while (meminfo >> key >> kib && std::getline(meminfo, unit)) {
    if (key == "MemAvailable:" || key == "SwapFree:") sum += kib * 1024;
    found = found || key == "MemAvailable:";
  }
  if (found) available = sum;
  if (const auto left = cgroup_memory_left_bytes()) available = std::min(available, *left);
  return available;
}

}  // namespace slipring::base
