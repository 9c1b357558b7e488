#include "base/segment.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <boost/interprocess/exceptions.hpp>
#include <cerrno>
#include <cstring>
#include <map>
#include <system_error>

#include "base/segment_state.h"
#include "base/syscalls.h"

namespace slipring::base {

namespace ipc = boost::interprocess;

namespace {

// What mapped_region wants of a "memory mappable": nothing but its handle.
struct MappableFile {
  int fd;
  ipc::mapping_handle_t get_mapping_handle() const {
    ipc::mapping_handle_t handle{};
    handle.handle = fd;
    handle.is_xsi = false;
    return handle;
  }
};

struct Registry {
  std::mutex mutex;
  std::map<SegmentNonce, std::weak_ptr<Segment>> segments;
};

// Never destroyed: a segment may be held by a static that goes later.
Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

Status check_options(const SegmentOptions& options) {
  if (options.bytes == 0 || options.bytes > kMaxSegmentBytes) {
    return error(StatusCode::invalid_argument, "segment {}: size {} bytes is not in 1 to {}", options.tag,
                 options.bytes, kMaxSegmentBytes);
  }
  if (options.huge_pages == HugePages::require && options.backing == SegmentBacking::shm) {
    return error(
        StatusCode::invalid_argument,
        "segment {}: huge pages are required but the shm backing has none; set segment.backing = \"memfd\"",
        options.tag);
  }
  return {};
}

Status check_range(const Segment& segment, std::string_view what, std::size_t offset, std::size_t bytes) {
  if (offset <= segment.size() && bytes <= segment.size() - offset) return {};
  return error(StatusCode::invalid_argument, "segment {}: {} offset {} bytes {} is beyond its {} bytes",
               segment.tag(), what, offset, bytes, segment.size());
}

// For kernels without MADV_POPULATE_WRITE. A read-modify-write that changes nothing maps the page for writing
// and cannot lose what another rank stores there at the same time.
void touch_pages(std::byte* begin, std::size_t bytes) noexcept {
  for (std::size_t at = 0; at < bytes; at += page_bytes()) {
    std::atomic_ref<unsigned char> byte(reinterpret_cast<unsigned char&>(begin[at]));
    byte.fetch_or(0, std::memory_order_relaxed);  // relaxed: orders nothing, only faults the page in
  }
}

}  // namespace

std::size_t page_bytes() noexcept {
  return ipc::mapped_region::get_page_size();
}

Result<ipc::mapped_region> map_segment_file(int fd, std::size_t bytes, std::string_view tag) {
  try {
    return ipc::mapped_region(MappableFile{fd}, ipc::read_write, 0, bytes);
  } catch (const ipc::interprocess_exception& failure) {
    return error(StatusCode::out_of_memory,
                 "segment {}: mapping {} bytes: {} (errno {}); raise ulimit -v or vm.max_map_count", tag,
                 bytes, failure.what(), failure.get_native_error());
  }
}

std::shared_ptr<Segment> find_mapped_segment(const SegmentNonce& nonce) {
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  const auto at = known.segments.find(nonce);
  return at == known.segments.end() ? nullptr : at->second.lock();
}

std::shared_ptr<Segment> enter_mapped_segment(const SegmentNonce& nonce, std::shared_ptr<Segment> segment) {
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  auto& entry = known.segments[nonce];
  if (auto earlier = entry.lock()) return earlier;
  entry = segment;
  return segment;
}

Segment::Segment(std::unique_ptr<State> state) noexcept
    : data_(static_cast<std::byte*>(state->region.get_address()) + state->header_bytes),
      bytes_(state->address.bytes),
      state_(std::move(state)) {}

Segment::~Segment() {
  Registry& known = registry();
  const std::lock_guard lock(known.mutex);
  // Another thread may have attached anew since the last owner let go.
  const auto at = known.segments.find(state_->address.nonce);
  if (at != known.segments.end() && at->second.expired()) known.segments.erase(at);
}

std::string Segment::address() const {
  return state_->address.to_string();
}
const std::string& Segment::tag() const noexcept {
  return state_->tag;
}
const std::string& Segment::note() const noexcept {
  return state_->note;
}
bool Segment::is_creator() const noexcept {
  return state_->creator_pid == ::getpid();
}

std::size_t Segment::reserved_bytes() const noexcept {
  // acquire: SEGMENT_RESERVED. The value is the creator's word, so it is clamped.
  return std::min<std::uint64_t>(state_->header().reserved_bytes.load(std::memory_order_acquire), bytes_);
}

Result<std::shared_ptr<Segment>> Segment::create(const SegmentOptions& options) {
  if (Status status = check_options(options); !status) return status;
  auto state = std::make_unique<State>();
  state->tag = options.tag;
  state->address.backing = options.backing;
  state->address.bytes = options.bytes;
  if (Status status = state->open_new(options); !status) return status;
  if (Status status = state->publish(); !status) return status;
  const SegmentNonce nonce = state->address.nonce;
  return enter_mapped_segment(nonce, std::shared_ptr<Segment>(new Segment(std::move(state))));
}

Status Segment::commit(std::size_t offset, std::size_t bytes) {
  if (Status status = check_range(*this, "commit", offset, bytes); !status) return status;
  if (!is_creator()) {
    return error(StatusCode::invalid_argument, "segment {}: commit by a process that did not create it",
                 state_->tag);
  }
  const std::lock_guard lock(state_->mutex);
  Status status = state_->reserve(offset, offset + bytes);
  if (status) state_->close_what_is_done();
  return status;
}

Status Segment::decommit(std::size_t offset, std::size_t bytes) {
  if (Status status = check_range(*this, "decommit", offset, bytes); !status) return status;
  if (!is_creator() || offset % state_->header_bytes != 0 || bytes % state_->header_bytes != 0) {
    return error(StatusCode::invalid_argument, "segment {}: decommit offset {} bytes {} by process {}, pages of {} bytes",
                 state_->tag, offset, bytes, ::getpid(), state_->header_bytes);
  }
  const std::lock_guard lock(state_->mutex);
  for (const auto& [begin, end] : state_->reserved.parts(offset, offset + bytes)) {
    if (state_->fd && release_file_space(state_->fd.get(), state_->header_bytes + begin, state_->header_bytes + end)) {
      state_->reserved.remove(begin, end);
    } else {
      std::memset(data_ + begin, 0, end - begin);
    }
  }
  state_->header().reserved_bytes.store(state_->reserved.prefix(), std::memory_order_release);  // SEGMENT_RESERVED
  return {};
}

Status Segment::prefault(std::size_t offset, std::size_t bytes) {
  if (Status status = check_range(*this, "prefault", offset, bytes); !status) return status;
  if (bytes == 0) return {};
  if (is_creator()) {
    if (Status status = commit(offset, bytes); !status) return status;
  } else if (offset + bytes > reserved_bytes()) {
    return error(StatusCode::invalid_argument,
                 "segment {}: prefault offset {} bytes {} of which {} are reserved", state_->tag, offset,
                 bytes, reserved_bytes());
  }
  std::byte* const begin = data_ + offset / page_bytes() * page_bytes();
  const std::size_t span = static_cast<std::size_t>(data_ + offset + bytes - begin);
  for (;;) {
    if (syscalls().madvise(begin, span, MADV_POPULATE_WRITE) == 0) return {};
    if (errno != EINTR && errno != EAGAIN) break;
  }
  if (errno == EFAULT || errno == ENOMEM || errno == EHWPOISON) {
    return error(StatusCode::out_of_memory, "segment {}: mapping the pages of {} bytes: {} (errno {})",
                 state_->tag, bytes, std::generic_category().message(errno), errno);
  }
  touch_pages(begin, span);
  return {};
}

void Segment::seal_attach() noexcept {
  const std::lock_guard lock(state_->mutex);
  state_->sealed = true;
  state_->close_what_is_done();
}

}  // namespace slipring::base
