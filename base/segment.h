// Segment: one mapped piece of memory that the ranks of a node share.
//
//   auto mine = Segment::create({.bytes = 1 << 20, .tag = "channel 0 -> 1"});   // rank 0
//   store.set("segment", (*mine)->address());
//   auto same = Segment::attach(store.get("segment"), deadline);                // every other rank
//   barrier(); (*mine)->seal_attach();          // the name, if there is one, and the descriptor are gone
//
// Space is reserved before use: a full /dev/shm or a memory limit is Status(out_of_memory), never SIGBUS.
// Nothing stays behind when processes are killed. Wrong: touching bytes beyond what create reserved or commit
// returned for. A process maps a segment once: creating and attaching it there, by any thread, give the same
// object, shared by its users and unmapped with the last. Any thread may call anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/segment_address.h"
#include "base/status.h"

namespace slipring::base {

enum class HugePages : std::uint8_t {
  off,
  attempt,  ///< the kernel's pool, else transparent ones if it permits them, else plain pages and a note
  require,  ///< the kernel's pool or an error
};

struct SegmentOptions {
  std::size_t bytes = 0;  ///< size of the user area
  std::size_t reserve_bytes =
      std::numeric_limits<std::size_t>::max();  ///< reserved now; the rest by commit()
  SegmentBacking backing = SegmentBacking::memfd;
  HugePages huge_pages = HugePages::off;
  std::string tag = "unnamed";  ///< what it is for, in messages
};

class Segment {
 public:
  static Result<std::shared_ptr<Segment>> create(const SegmentOptions& options);
  /// `address` is untrusted. unavailable: creator and caller do not share memory, or the segment was sealed.
  /// timeout: the creator had not finished the segment by the deadline. corrupt: not an address, or not that
  /// segment.
  static Result<std::shared_ptr<Segment>> attach(std::string_view address, const Deadline& deadline);

  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  /// The user area: page-aligned (huge-page-aligned if backed by huge pages), zero when created.
  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }
  std::string address() const;
  const std::string& tag() const noexcept;
  /// What create could not do as asked and did otherwise, for a warning; empty if nothing.
  const std::string& note() const noexcept;
  bool is_creator() const noexcept;
  /// Bytes from data() on that are reserved, as far as the creator has told; never above size().
  std::size_t reserved_bytes() const noexcept;

  /// Creator only: reserves a further range. Idempotent; all or nothing.
  Status commit(std::size_t offset, std::size_t bytes);
  /// Creator only: gives a range back that nobody uses any more. It reads as zero when it is committed again.
  /// offset and bytes must be multiples of the page size.
  Status decommit(std::size_t offset, std::size_t bytes);
  /// Maps the pages of a reserved range in this process, so that no later access faults. Keeps the contents.
  Status prefault(std::size_t offset, std::size_t bytes);
  /// Creator: everyone has attached; later attaches from other processes fail. Unlinks the name and closes
  /// the descriptor (which a segment that is not wholly reserved keeps until it is). Idempotent.
  void seal_attach() noexcept;

 private:
  struct State;
  explicit Segment(std::unique_ptr<State> state) noexcept;
  static Result<std::shared_ptr<Segment>> try_attach(const SegmentAddress& address);

  std::byte* data_;
  std::size_t bytes_;
  std::unique_ptr<State> state_;
};

}  // namespace slipring::base
