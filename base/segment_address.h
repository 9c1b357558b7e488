// SegmentAddress: where a segment can be found, as the text that travels through a store to the other ranks:
//   slipring-segment-1:memfd:<pid>:<start>:<fd>:<nonce>:<bytes>     or   slipring-segment-1:shm:...
// Parsing trusts nothing: fixed number of fields, fixed ranges, no blanks, at most kMaxSegmentAddressChars.
// The name of a shm file follows from the nonce, so no path is ever taken from a peer. Value type.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/liveness.h"
#include "base/status.h"

namespace slipring::base {

enum class SegmentBacking : std::uint8_t {
  memfd,  ///< anonymous file, reached through /proc/PID/fd: not limited by /dev/shm, gone with its processes
  shm,    ///< file in /dev/shm, unlinked once all have attached: for peers that /proc/PID/fd is closed to
};

std::string_view segment_backing_name(SegmentBacking backing) noexcept;

inline constexpr std::size_t kMaxSegmentAddressChars = 160;
inline constexpr std::size_t kMaxSegmentBytes = std::size_t{1} << 46;  // half of x86-64's address space

/// 128 random bits that no two segments share.
using SegmentNonce = std::array<std::uint64_t, 2>;

struct SegmentAddress {
  SegmentBacking backing = SegmentBacking::memfd;
  ProcessId creator;
  int fd = -1;
  SegmentNonce nonce{};
  std::size_t bytes = 0;

  std::string to_string() const;
  static Result<SegmentAddress> parse(std::string_view text);
  /// Of the shm backing: "/dev/shm/slipring-<nonce>".
  std::string shm_path() const;
};

}  // namespace slipring::base
