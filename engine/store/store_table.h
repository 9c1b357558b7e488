// StoreTable: the keys and values of a store in memory, with bounds; what the memory store and the tcp server
// share. Not thread-safe: its owner serialises. A call that fails leaves the table as it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "slipring/status.h"

namespace slipring::engine {

class StoreTable {
 public:
  explicit StoreTable(std::size_t max_bytes) noexcept : max_bytes_(max_bytes) {}

  Status set(std::string_view key, std::string_view value);
  /// nullptr if absent; valid until the next call.
  const std::string* find(std::string_view key) const;
  Result<std::string> claim(std::string_view key, std::string_view value);
  Result<std::int64_t> add(std::string_view key, std::int64_t delta);
  void remove(std::string_view key);

 private:
  // Charged for every key beside its bytes, so that a flood of tiny keys meets the bound too.
  static constexpr std::size_t kEntryOverheadBytes = 128;

  std::unordered_map<std::string, std::string> values_;
  std::size_t bytes_ = 0;
  std::size_t max_bytes_;
};

/// `current` (nullptr: 0) plus delta, for counters kept as decimal text.
Result<std::int64_t> add_to_counter(std::string_view key, const std::string* current, std::int64_t delta);

}  // namespace slipring::engine
