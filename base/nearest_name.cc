#include "base/nearest_name.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace slipring::base {
namespace {

/// Optimal string alignment distance. Three rows of the table are enough.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replace, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates) {
  std::string_view nearest;
  std::size_t fewest = static_cast<std::size_t>(-1);
  for (const std::string_view candidate : candidates) {
    const std::size_t edits = edit_distance(name, candidate);
    if (edits >= fewest) continue;
    fewest = edits;
    nearest = candidate;
  }
  const std::size_t bound = std::max<std::size_t>(2, std::max(name.size(), nearest.size()) / 3);
  return fewest <= bound ? nearest : std::string_view();
}

}  // namespace slipring::base
