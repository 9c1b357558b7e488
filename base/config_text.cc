// What people read: origins, the dump, and the reference.
#include <fmt/format.h>

#include <algorithm>

#include "base/config.h"

namespace slipring::base {
namespace {

std::string_view layer_name(ConfigLayer layer) {
  switch (layer) {
    case ConfigLayer::built_in:
      return "built-in default";
    case ConfigLayer::system_file:
      return "system file";
    case ConfigLayer::user_file:
      return "user file";
    case ConfigLayer::named_file:
      return "file named by SLIPRING_CONFIG";
    case ConfigLayer::environment:
      return "environment variable";
    case ConfigLayer::api:
      return "API";
  }
  return "unknown";
}

/// A path may hold any byte; a control character would end the comment that shows it.
std::string on_one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; },
      '?');
  return text;
}

std::string table_cell(std::string_view text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|') cell.push_back('\\');
    cell.push_back(c);
  }
  return cell;
}

constexpr std::string_view kDocsHead = R"(# Configuration

This file is written by `slipring-info --config-docs`; edit `base/config_keys.def` instead.

A value comes from the highest of these layers that sets it:

1. the API (`JobOptions::config`),
2. the environment: key `wait.spin_ns` is variable `SLIPRING_WAIT_SPIN_NS`,
3. the TOML file that `SLIPRING_CONFIG` names (it must exist),
4. the user file `$XDG_CONFIG_HOME/slipring/slipring.toml`, or `~/.config/slipring/slipring.toml`,
5. the system file `/etc/slipring/slipring.toml`,
6. the built-in default.

In a file, `wait.spin_ns = 0` and `[wait]` with `spin_ns = 0` mean the same. In the environment and the API, bool
is `true` or `false` (or `1`, `0`), and strings have no quotes. A value of the wrong type or out of its range is an
error in every layer, even where a higher layer hides it. An unknown key is an error from the API, and elsewhere a
warning that names the nearest known one.

`slipring-info --config` prints each value with its origin; its output is a config file.

## Keys
)";

constexpr std::string_view kDocsVariables = R"(
## Environment variables that are not keys

| variable | meaning |
| --- | --- |
)";

}  // namespace

std::string ConfigOrigin::to_string() const {
  std::string text(layer_name(layer));
  return place.empty() ? text : text + " " + place;
}

std::string Config::to_toml() const {
  std::string out =
      "# Slipring configuration: each value with its meaning, what is allowed, and its origin.\n";
  const auto keys = config_keys();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const ConfigKey& key = keys[i];
    fmt::format_to(std::back_inserter(out), "\n# {}\n# allowed: {}\n# origin: {}\n{} = {}\n", key.meaning,
                   key.describe_allowed(), on_one_line(origins_[i].to_string()), key.name,
                   toml_literal(key.get(values_)));
  }
  return out;
}

std::string config_markdown() {
  std::string out(kDocsHead);
  const ConfigValues defaults;
  std::string_view group;
  for (const ConfigKey& key : config_keys()) {
    const std::string_view key_group = key.name.substr(0, key.name.find('.'));
    if (key_group != group) {
      group = key_group;
      fmt::format_to(std::back_inserter(out),
                     "\n### {}\n\n| key | variable | type | default | allowed | meaning |\n"
                     "| --- | --- | --- | --- | --- | --- |\n",
                     group);
    }
    fmt::format_to(std::back_inserter(out), "| `{}` | `{}` | {} | `{}` | {} | {} |\n", key.name, key.variable,
                   config_type_name(key.field.index()), toml_literal(key.get(defaults)),
                   table_cell(key.describe_allowed()), table_cell(key.meaning));
  }
  out += kDocsVariables;
  for (const ConfigVariable& variable : config_variables())
    fmt::format_to(std::back_inserter(out), "| `{}` | {} |\n", variable.name, table_cell(variable.meaning));
  return out;
}

}  // namespace slipring::base
