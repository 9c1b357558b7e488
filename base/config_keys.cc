#include <fmt/format.h>

#include "base/config.h"
#include "base/fault.h"
#include "base/log_levels.h"

namespace slipring::base {
namespace {

constexpr bool is_dotted_form(std::string_view field, std::string_view key) {
  if (field.size() != key.size()) return false;
  for (std::size_t i = 0; i < key.size(); ++i)
    if (field[i] != (key[i] == '.' ? '_' : key[i])) return false;
  return true;
}
#define SLIPRING_CONFIG_KEY(type, field, key, default_value, unit, allowed, meaning) \
  static_assert(is_dotted_form(#field, key), "the field of " key " is its name with underscores");
#include "base/config_keys.def"

std::string variable_of(std::string_view key) {
  std::string variable = "SLIPRING_";
  for (const char c : key) {
    const bool lower = c >= 'a' && c <= 'z';
    variable.push_back(c == '.' ? '_' : lower ? static_cast<char>(c - 'a' + 'A') : c);
  }
  return variable;
}

/// Whether the text is a fault at all; which rank it strikes is for that rank to find out.
Result<FaultPoint> parse_fault(std::string_view text) {
  return FaultPoint::parse(text, /*own_rank=*/-1, /*start=*/0);
}

std::vector<ConfigKey> list_keys() {
  using namespace allowed;  // the words of the list
  return {
#define SLIPRING_CONFIG_KEY(type, field, key, default_value, unit, allowed, meaning) \
  ConfigKey{key, variable_of(key), &ConfigValues::field, unit, allowed, meaning},
#include "base/config_keys.def"
  };
}

}  // namespace

ConfigValue ConfigKey::get(const ConfigValues& values) const {
  return std::visit([&](auto member) { return ConfigValue(values.*member); }, field);
}

void ConfigKey::set(ConfigValues& values, ConfigValue value) const {
  std::visit(
      [&](auto member) {
        using Type = std::remove_reference_t<decltype(values.*member)>;
        values.*member = std::get<Type>(std::move(value));
      },
      field);
}

std::string ConfigKey::describe_allowed() const {
  const std::string text = allowed.describe(field.index());
  return unit.empty() ? text : fmt::format("{} {}", text, unit);
}

std::span<const ConfigKey> config_keys() {
  static const std::vector<ConfigKey> keys = list_keys();
  return keys;
}

std::span<const ConfigVariable> config_variables() {
  static constexpr ConfigVariable kVariables[] = {
#define SLIPRING_CONFIG_VARIABLE(name, meaning) {name, meaning},
#include "base/config_keys.def"
  };
  return kVariables;
}

}  // namespace slipring::base
