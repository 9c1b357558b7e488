// Attaching to a segment by its address. The address and the file that it leads to come from another process
// and are checked before use: what the link in /proc names, what kind of file it is, its seals and size, and
// magic and nonce in its header. A file that is not finished yet is looked at again until the deadline.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>

#include "base/segment.h"
#include "base/segment_file.h"
#include "base/segment_state.h"

namespace slipring::base {

namespace {

using std::chrono::microseconds;

Status unreachable(const SegmentAddress& address, std::string_view cause) {
  return error(StatusCode::unavailable, "ranks do not share memory: segment of process {}: {}",
               address.creator.pid, cause);
}

Status not_ready(std::string_view cause) {
  return Status(StatusCode::would_block, std::string(cause));
}

std::string errno_text(int error_number) {
  return fmt::format("{} (errno {})", std::generic_category().message(error_number), error_number);
}

std::string read_link(const std::string& path) {
  std::array<char, PATH_MAX> target{};
  const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
  return length < 0 ? std::string() : std::string(target.data(), static_cast<std::size_t>(length));
}

// First a handle that cannot read, block or disturb whatever it is (O_PATH); what it is is asked of the
// handle, so that the answer still holds when it is then opened in earnest.
Result<FileDescriptor> open_memfd(const SegmentAddress& address) {
  const std::uint64_t start = process_start_ticks(address.creator.pid);
  if (start == 0) return unreachable(address, "there is no such process here");
  if (address.creator.start_ticks != 0 && start != address.creator.start_ticks) {
    return unreachable(address, "the process with this pid is another one");
  }
  const std::string path = fmt::format("/proc/{}/fd/{}", address.creator.pid, address.fd);
  const FileDescriptor handle(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!handle && errno == ENOENT) return unreachable(address, "it is not open for attaching any more");
  if (!handle) return unreachable(address, fmt::format("open {}: {}", path, errno_text(errno)));
  const std::string own_path = fmt::format("/proc/self/fd/{}", handle.get());
  const std::string target = read_link(own_path);
  if (target != fmt::format("/memfd:{} (deleted)", kMemfdName)) {
    return unreachable(address, fmt::format("{} is not a segment", path));
  }
  FileDescriptor fd(::open(own_path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return unreachable(address, fmt::format("open {}: {}", path, errno_text(errno)));
  return fd;
}

Result<FileDescriptor> open_shm(const SegmentAddress& address) {
  const std::string path = address.shm_path();
  FileDescriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (!fd) return unreachable(address, fmt::format("open {}: {}", path, errno_text(errno)));
  return fd;
}

// Size and kind; `file_bytes` is what may be mapped.
Status check_file(int fd, const SegmentAddress& address, std::size_t& file_bytes) {
  struct stat file {};
  if (::fstat(fd, &file) != 0) return errno_error(errno, "fstat of a segment");
  if (!S_ISREG(file.st_mode)) return unreachable(address, "it is not a regular file");
  if (file.st_size == 0) return not_ready("its file is empty");
  if (address.backing == SegmentBacking::memfd) {
    const int seals = ::fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return not_ready("its file is not sealed");
  }
  file_bytes = static_cast<std::size_t>(file.st_size);
  return {};
}

// The part of the header that never changes once it is ready.
struct HeaderCopy {
  std::array<char, 8> magic;
  std::uint64_t header_bytes;
  std::uint64_t user_bytes;
  SegmentNonce nonce;
};
static_assert(sizeof(HeaderCopy) == offsetof(SegmentHeader, reserved_bytes));

Status check_header(const HeaderCopy& header, const SegmentAddress& address, std::size_t file_bytes) {
  if (header.magic != SegmentHeader::kMagic) {
    return error(StatusCode::corrupt, "segment of process {} has no valid header", address.creator.pid);
  }
  if (header.nonce != address.nonce) return unreachable(address, "another segment is found at its address");
  const bool page_multiple = header.header_bytes >= page_bytes() && header.header_bytes % page_bytes() == 0;
  if (!page_multiple || header.header_bytes >= file_bytes || header.user_bytes != address.bytes ||
      file_bytes != header.header_bytes + round_up(header.user_bytes, header.header_bytes)) {
    return error(StatusCode::corrupt,
                 "segment of process {}: sizes disagree: address {}, header {} + {}, file {}",
                 address.creator.pid, address.bytes, header.header_bytes, header.user_bytes, file_bytes);
  }
  return {};
}

// Read through the descriptor, not the mapping: how much may be mapped is known only from what is read here.
Status read_header(int fd, HeaderCopy& copy) {
  std::array<char, sizeof(SegmentHeader)> raw{};
  const ssize_t got = ::pread(fd, raw.data(), raw.size(), 0);
  if (got < static_cast<ssize_t>(raw.size())) return not_ready("its header is not written");
  std::uint32_t ready = 0;
  std::memcpy(&ready, raw.data() + offsetof(SegmentHeader, ready), sizeof(ready));
  if (ready == 0) return not_ready("its header is not finished");
  std::memcpy(&copy, raw.data(), sizeof(copy));
  return {};
}

}  // namespace

Result<std::shared_ptr<Segment>> Segment::try_attach(const SegmentAddress& address) {
  auto fd = address.backing == SegmentBacking::memfd ? open_memfd(address) : open_shm(address);
  if (!fd) return fd.status();
  std::size_t file_bytes = 0;
  if (Status status = check_file(fd->get(), address, file_bytes); !status) return status;
  HeaderCopy header{};
  if (Status status = read_header(fd->get(), header); !status) return status;
  if (Status status = check_header(header, address, file_bytes); !status) return status;
  auto mapped = map_segment_file(fd->get(), file_bytes, "attach");
  if (!mapped) return mapped.status();

  auto state = std::make_unique<State>();
  state->address = address;
  state->tag = fmt::format("of process {}", address.creator.pid);
  state->header_bytes = header.header_bytes;
  state->region.swap(*mapped);
  // acquire: SEGMENT_READY. pread() above gives no order between the creator's stores.
  if (state->header().ready.load(std::memory_order_acquire) == 0)
    return not_ready("its header is not finished");
  std::memcpy(&header, static_cast<const void*>(&state->header()), sizeof(header));
  if (Status status = check_header(header, address, file_bytes); !status) return status;
  return enter_mapped_segment(address.nonce, std::shared_ptr<Segment>(new Segment(std::move(state))));
}

Result<std::shared_ptr<Segment>> Segment::attach(std::string_view address_text, const Deadline& deadline) {
  auto address = SegmentAddress::parse(address_text);
  if (!address) return address.status();
  microseconds pause(100);
  for (;;) {
    if (auto mapped = find_mapped_segment(address->nonce)) {
      if (mapped->size() == address->bytes) return mapped;
      return error(StatusCode::corrupt, "segment address says {} bytes, the segment has {}", address->bytes,
                   mapped->size());
    }
    auto attached = try_attach(*address);
    if (attached || attached.status().code() != StatusCode::would_block) return attached;
    if (deadline.passed()) {
      return error(StatusCode::timeout, "segment of process {} is not ready: {}", address->creator.pid,
                   attached.status().message());
    }
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, deadline.left()));
    pause = std::min(pause * 2, microseconds(5000));
  }
}

}  // namespace slipring::base
