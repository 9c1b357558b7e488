#include "base/segment_state.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <new>

#include "base/syscalls.h"

namespace slipring::base {

namespace {

// A file in /dev/shm that another process's sweep takes away before it is locked is made anew under another
// name.
constexpr int kMaxNames = 16;

Status draw_nonce(SegmentNonce& nonce) {
  for (;;) {
    const ssize_t got = ::getrandom(nonce.data(), sizeof(nonce), 0);
    if (got == static_cast<ssize_t>(sizeof(nonce))) return {};
    if (got < 0 && errno != EINTR) return errno_error(errno, "getrandom");
  }
}

bool transparent_huge_pages_permitted() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  std::string text;
  std::getline(file, text);
  return text.find("[never]") == std::string::npos && text.find("[deny]") == std::string::npos &&
         !text.empty();
}

Result<SegmentFile> make_named_shm_file(SegmentAddress& address) {
  remove_stale_shm_files();
  for (int attempt = 1;; ++attempt) {
    auto file = make_shm_file(address);
    if (file || file.status().code() != StatusCode::would_block) return file;
    if (attempt == kMaxNames) return error(StatusCode::system_error, "{} names in a row", kMaxNames);
    if (Status status = draw_nonce(address.nonce); !status) return status;
  }
}

}  // namespace

Segment::State::~State() {
  sealed = true;
  close_what_is_done();
}

Status Segment::State::open_new(const SegmentOptions& options) {
  if (Status status = draw_nonce(address.nonce); !status) return status;
  address.creator = this_process();
  creator_pid = address.creator.pid;
  tag = options.tag;
  address.backing = options.backing;
  address.bytes = options.bytes;
  if (options.huge_pages == HugePages::off) return open_plain(options);

  Status huge = options.backing == SegmentBacking::memfd
                    ? open_huge(options)
                    : error(StatusCode::unavailable, "/dev/shm has no huge pages");
  if (huge) return {};
  if (options.huge_pages == HugePages::require) return huge;
  if (Status status = open_plain(options); !status) return status;
  const bool transparent = transparent_huge_pages_permitted() &&
                           syscalls().madvise(region.get_address(), region.get_size(), MADV_HUGEPAGE) == 0;
  note += fmt::format("{}segment {}: no huge pages: {}; using {} pages", note.empty() ? "" : "; ", tag,
                      huge.message(), transparent ? "transparent huge" : "plain");
  return {};
}

Status Segment::State::open_huge(const SegmentOptions& options) {
  auto file = make_memfd(true);
  if (!file) return file.status();
  huge_pages = true;
  Status status = adopt(std::move(*file), options);
  if (!status) {
    huge_pages = false;
    fd.reset();
    reserved = {};
  }
  return status;
}

Status Segment::State::open_plain(const SegmentOptions& options) {
  if (address.backing == SegmentBacking::memfd) {
    auto file = make_memfd(false);
    if (file) return adopt(std::move(*file), options);
    address.backing = SegmentBacking::shm;
    note = fmt::format("segment {}: {}; using the shm backing", tag, file.status().message());
  }
  auto file = make_named_shm_file(address);
  if (!file) return file.status();
  return adopt(std::move(*file), options);
}

Status Segment::State::adopt(SegmentFile file, const SegmentOptions& options) {
  fd = std::move(file.fd);
  linked = file.has_name;
  header_bytes = std::max(file.page_bytes, page_bytes());
  const std::size_t file_bytes = header_bytes + round_up(options.bytes, header_bytes);
  if (::ftruncate(fd.get(), static_cast<off_t>(file_bytes)) != 0) {
    return errno_error(errno, fmt::format("segment {}: ftruncate to {} bytes", tag, file_bytes));
  }
  // A peer that could shrink the file would turn our loads and stores into SIGBUS.
  if (address.backing == SegmentBacking::memfd &&
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return errno_error(errno, fmt::format("segment {}: F_ADD_SEALS", tag));
  }
  address.fd = fd.get();
  const std::size_t now_bytes = round_up(std::min(options.reserve_bytes, options.bytes), header_bytes);
  Status status = reserve_file_space({.fd = fd.get(),
                                      .begin = 0,
                                      .end = header_bytes + now_bytes,
                                      .backing = address.backing,
                                      .huge_pages = huge_pages,
                                      .tag = tag});
  if (!status) return status;
  reserved.add(0, now_bytes);
  auto mapped = map_segment_file(fd.get(), file_bytes, tag);
  if (!mapped) return mapped.status();
  region.swap(*mapped);
  return {};
}

Status Segment::State::publish() {
  auto* const fresh = new (region.get_address()) SegmentHeader{};
  fresh->magic = SegmentHeader::kMagic;
  fresh->header_bytes = header_bytes;
  fresh->user_bytes = address.bytes;
  fresh->nonce = address.nonce;
  // relaxed: ordered before `ready` by its release
  fresh->reserved_bytes.store(reserved.prefix(), std::memory_order_relaxed);
  fresh->ready.store(1, std::memory_order_release);  // SEGMENT_READY
  if (address.backing != SegmentBacking::shm || linked) return {};
  Status status = link_shm_file(fd.get(), address);
  linked = status.is_ok();
  return status;
}

Status Segment::State::reserve(std::size_t begin, std::size_t end) {
  const std::size_t user_end = round_up(address.bytes, header_bytes);
  begin = begin / header_bytes * header_bytes;
  end = std::min(round_up(end, header_bytes), user_end);
  std::vector<ReservedRanges::Range> done;
  for (const auto& [gap_begin, gap_end] : reserved.gaps(begin, end)) {
    Status status = reserve_file_space({.fd = fd.get(),
                                        .mapping = static_cast<std::byte*>(region.get_address()),
                                        .begin = header_bytes + gap_begin,
                                        .end = header_bytes + gap_end,
                                        .backing = address.backing,
                                        .huge_pages = huge_pages,
                                        .tag = tag});
    if (!status) {
      for (const auto& [undo_begin, undo_end] : done) {
        release_file_space(fd.get(), header_bytes + undo_begin, header_bytes + undo_end);
      }
      return status;
    }
    done.emplace_back(gap_begin, gap_end);
  }
  for (const auto& [gap_begin, gap_end] : done) reserved.add(gap_begin, gap_end);
  header().reserved_bytes.store(reserved.prefix(), std::memory_order_release);  // SEGMENT_RESERVED
  return {};
}

void Segment::State::close_what_is_done() noexcept {
  if (!sealed) return;
  if (linked && creator_pid == ::getpid()) ::unlink(address.shm_path().c_str());
  linked = false;
  if (reserved.prefix() >= address.bytes) fd.reset();
}

}  // namespace slipring::base
