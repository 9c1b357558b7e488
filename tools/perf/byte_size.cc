#include "tools/perf/byte_size.h"

#include <charconv>
#include <limits>

namespace slipring::tools::perf {
namespace {

constexpr std::size_t kLargest = std::size_t{1} << 48;

/// Power of 1024 that a suffix stands for; nullopt if it is none.
std::optional<int> suffix_shift(std::string_view suffix) {
  if (suffix.empty()) return 0;
  if (suffix.size() > 1) return std::nullopt;
  switch (suffix[0] | 0x20) {
    case 'k':
      return 10;
    case 'm':
      return 20;
    case 'g':
      return 30;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<std::size_t> parse_byte_size(std::string_view text) {
  std::size_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto shift = suffix_shift(text.substr(static_cast<std::size_t>(end - text.data())));
  if (problem != std::errc{} || !shift || number > (kLargest >> *shift)) return std::nullopt;
  return number << *shift;
}

std::vector<std::size_t> sweep(std::size_t min_bytes, std::size_t max_bytes, std::size_t factor,
                               std::size_t element_bytes) {
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = min_bytes; bytes <= max_bytes;) {
    const std::size_t whole = bytes / element_bytes * element_bytes;
    if (sizes.empty() || sizes.back() != whole) sizes.push_back(whole);
    if (bytes > std::numeric_limits<std::size_t>::max() / factor) break;
    bytes = bytes == 0 ? element_bytes : bytes * factor;
  }
  return sizes;
}

}  // namespace slipring::tools::perf
