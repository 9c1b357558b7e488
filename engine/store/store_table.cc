#include "engine/store/store_table.h"

#include <charconv>

#include "base/status.h"
#include "engine/store/store.h"

namespace slipring::engine {

Status check_store_key(std::string_view key) {
  if (!key.empty() && key.size() <= kMaxStoreKeyBytes) return {};
  return base::error(StatusCode::invalid_argument, "store key bytes {} outside 1-{}; key starts \"{}\"",
                     key.size(), kMaxStoreKeyBytes, key.substr(0, 40));
}

Status check_store_value(std::string_view key, std::string_view value) {
  if (Status status = check_store_key(key); !status) return status;
  if (value.size() <= kMaxStoreValueBytes) return {};
  return base::error(StatusCode::invalid_argument,
                     "store value bytes {} above the limit {}; key \"{}\"; split it over several keys",
                     value.size(), kMaxStoreValueBytes, key);
}

Result<std::int64_t> add_to_counter(std::string_view key, const std::string* current, std::int64_t delta) {
  std::int64_t count = 0;
  if (current != nullptr) {
    const char* end = current->data() + current->size();
    const auto [stop, problem] = std::from_chars(current->data(), end, count);
    if (problem != std::errc() || stop != end) {
      return base::error(StatusCode::invalid_argument,
                         "store key \"{}\" holds {} bytes that are no counter; use another key", key,
                         current->size());
    }
  }
  std::int64_t sum = 0;
  if (__builtin_add_overflow(count, delta, &sum)) {
    return base::error(StatusCode::invalid_argument, "store counter \"{}\" overflows: {} + {}", key, count,
                       delta);
  }
  return sum;
}

Status StoreTable::set(std::string_view key, std::string_view value) {
  if (Status status = check_store_value(key, value); !status) return status;
  const auto found = values_.find(std::string(key));
  const bool is_new = found == values_.end();
  const std::size_t freed = is_new ? 0 : found->second.size();
  const std::size_t needed = value.size() + (is_new ? key.size() + kEntryOverheadBytes : 0);
  if (bytes_ - freed + needed > max_bytes_) {
    return base::error(StatusCode::out_of_memory,
                       "store full: needed {} free {} bytes; key \"{}\"; remove keys that are no longer read",
                       needed, max_bytes_ - bytes_, key);
  }
  bytes_ = bytes_ - freed + needed;
  if (is_new) {
    values_.emplace(key, value);
  } else {
    found->second.assign(value);
  }
  return {};
}

const std::string* StoreTable::find(std::string_view key) const {
  const auto found = values_.find(std::string(key));
  return found == values_.end() ? nullptr : &found->second;
}

Result<std::string> StoreTable::claim(std::string_view key, std::string_view value) {
  if (const std::string* present = find(key)) return *present;
  if (Status status = set(key, value); !status) return status;
  return std::string(value);
}

Result<std::int64_t> StoreTable::add(std::string_view key, std::int64_t delta) {
  if (Status status = check_store_key(key); !status) return status;
  Result<std::int64_t> sum = add_to_counter(key, find(key), delta);
  if (!sum) return sum;
  if (Status status = set(key, std::to_string(*sum)); !status) return status;
  return sum;
}

void StoreTable::remove(std::string_view key) {
  const auto found = values_.find(std::string(key));
  if (found == values_.end()) return;
  bytes_ -= found->first.size() + found->second.size() + kEntryOverheadBytes;
  values_.erase(found);
}

}  // namespace slipring::engine
