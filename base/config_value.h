// One configuration value apart from its key: its type, its text forms, and what is allowed.
//
// Text comes in two forms: plain (environment, API: `true`, `12`, `ring`) and a TOML literal (files, dumps:
// `true`, `12`, `"ring"`). Every value that is accepted can be dumped and read back to the same value. Pure
// functions, any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "slipring/status.h"

namespace slipring::base {

using ConfigValue = std::variant<bool, std::int64_t, double, std::string>;

/// "bool", "integer", "number" or "string", for `ConfigValue::index()`.
std::string_view config_type_name(std::size_t type_index) noexcept;

/// Plain text as a value of the type; nullopt when it is not one (trailing characters, overflow, not UTF-8).
std::optional<ConfigValue> parse_config_value(std::size_t type_index, std::string_view text);
/// The value as TOML writes it.
std::string toml_literal(const ConfigValue& value);

/// What a key accepts beyond its type.
struct Allowed {
  bool automatic = false;  ///< -1 is accepted too
  std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
  std::int64_t highest = std::numeric_limits<std::int64_t>::max();
  std::vector<std::string_view> words{};  ///< when not empty, the only strings accepted
  Status (*check)(std::string_view) = nullptr;
  std::string_view form{};  ///< what `check` accepts, in words

  /// Bad when not accepted; the message is empty where describe() says it all.
  Status accept(const ConfigValue& value) const;
  /// E.g. "-1 (automatic) or an integer of at least 0".
  std::string describe(std::size_t type_index) const;
};

namespace allowed {
inline Allowed anything() {
  return {};
}
inline Allowed at_least(std::int64_t lowest) {
  return {.lowest = lowest};
}
inline Allowed between(std::int64_t lowest, std::int64_t highest) {
  return {.lowest = lowest, .highest = highest};
}
inline Allowed automatic_or(Allowed range) {
  range.automatic = true;
  return range;
}
template <class... Words>
Allowed one_of(Words... words) {
  return {.words = {words...}};
}
/// Strings that `parse`, a function string_view -> Result<T>, accepts.
template <auto parse>
Allowed parsed_by(std::string_view form) {
  return {.check = [](std::string_view text) { return Status(parse(text).status()); }, .form = form};
}
}  // namespace allowed

}  // namespace slipring::base
