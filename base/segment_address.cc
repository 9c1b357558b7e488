#include "base/segment_address.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <vector>

namespace slipring::base {

namespace {

constexpr std::string_view kFormat = "slipring-segment-1";

// Decimal without sign, blanks or leading zeros, so that each address has one spelling.
bool parse_decimal(std::string_view text, std::uint64_t max, std::uint64_t& out) {
  if (text.empty() || (text.size() > 1 && text[0] == '0')) return false;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  return code == std::errc() && end == text.data() + text.size() && out <= max;
}

bool parse_nonce(std::string_view text, SegmentNonce& out) {
  if (text.size() != 32) return false;
  if (!std::all_of(text.begin(), text.end(),
                   [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); })) {
    return false;
  }
  for (std::size_t half = 0; half < 2; ++half) {
    const char* begin = text.data() + 16 * half;
    std::from_chars(begin, begin + 16, out[half], 16);
  }
  return true;
}

std::vector<std::string_view> split_fields(std::string_view text) {
  std::vector<std::string_view> fields;
  for (;;) {
    const std::size_t colon = text.find(':');
    fields.push_back(text.substr(0, colon));
    if (colon == std::string_view::npos) return fields;
    text.remove_prefix(colon + 1);
  }
}

Status malformed(std::string_view what) {
  return error(StatusCode::corrupt, "segment address is malformed: {}", what);
}

}  // namespace

std::string_view segment_backing_name(SegmentBacking backing) noexcept {
  return backing == SegmentBacking::memfd ? "memfd" : "shm";
}

std::string SegmentAddress::to_string() const {
  return fmt::format("{}:{}:{}:{}:{}:{:016x}{:016x}:{}", kFormat, segment_backing_name(backing), creator.pid,
                     creator.start_ticks, fd, nonce[0], nonce[1], bytes);
}

std::string SegmentAddress::shm_path() const {
  return fmt::format("/dev/shm/slipring-{:016x}{:016x}", nonce[0], nonce[1]);
}

Result<SegmentAddress> SegmentAddress::parse(std::string_view text) {
  if (text.size() > kMaxSegmentAddressChars) return malformed("too long");
  const auto fields = split_fields(text);
  if (fields.size() != 7) return malformed("number of fields");
  if (fields[0] != kFormat) return malformed("format or version");
  SegmentAddress address;
  if (fields[1] == "memfd") {
    address.backing = SegmentBacking::memfd;
  } else if (fields[1] == "shm") {
    address.backing = SegmentBacking::shm;
  } else {
    return malformed("backing");
  }
  std::uint64_t number = 0;
  if (!parse_decimal(fields[2], std::numeric_limits<pid_t>::max(), number) || number == 0)
    return malformed("pid");
  address.creator.pid = static_cast<pid_t>(number);
  if (!parse_decimal(fields[3], std::numeric_limits<std::uint64_t>::max(), number))
    return malformed("start time");
  address.creator.start_ticks = number;
  if (!parse_decimal(fields[4], std::numeric_limits<int>::max(), number)) return malformed("descriptor");
  address.fd = static_cast<int>(number);
  if (!parse_nonce(fields[5], address.nonce)) return malformed("nonce");
  if (!parse_decimal(fields[6], kMaxSegmentBytes, number) || number == 0) return malformed("size");
  address.bytes = number;
  return address;
}

}  // namespace slipring::base
