// Configuration: one typed field per key of base/config_keys.def, filled from layers, each value with its
// origin.
//
//   Result<Config> config = Config::load(options.config);  // once per job, on the control path
//   if (config->values().wait_spin_ns != 0) ...            // hot paths read the plain field
//
// Later layers win: built-in default, system file, user file, file named by SLIPRING_CONFIG, environment
// (SLIPRING_*), API. A value that is mistyped or out of range is an error in whichever layer it stands, also
// where a higher layer hides it; an unknown key is an error from the API and a warning elsewhere.
// A Config is an immutable value, free to be read from any thread. load() reads the environment, so it must
// not run beside setenv().
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/config_value.h"
#include "slipring/status.h"

namespace slipring::base {

struct ConfigValues {
#define SLIPRING_CONFIG_KEY(type, field, key, default_value, unit, allowed, meaning) \
  type field = default_value;
#include "base/config_keys.def"
};

/// Member of ConfigValues that a key fills; alternatives in the order of ConfigValue's.
using ConfigField = std::variant<bool ConfigValues::*, std::int64_t ConfigValues::*, double ConfigValues::*,
                                 std::string ConfigValues::*>;

struct ConfigKey {
  std::string_view name;  ///< "wait.spin_ns"
  std::string variable;   ///< "SLIPRING_WAIT_SPIN_NS"
  ConfigField field;
  std::string_view unit;
  Allowed allowed;
  std::string_view meaning;

  ConfigValue get(const ConfigValues& values) const;
  /// `value` has the key's type.
  void set(ConfigValues& values, ConfigValue value) const;
  /// With the unit, e.g. "an integer of at least 0 ns".
  std::string describe_allowed() const;
};

/// Every key, in the order of base/config_keys.def.
std::span<const ConfigKey> config_keys();

/// An environment variable that shares the prefix SLIPRING_ but is no key.
struct ConfigVariable {
  std::string_view name;
  std::string_view meaning;
};
std::span<const ConfigVariable> config_variables();

enum class ConfigLayer : std::uint8_t { built_in, system_file, user_file, named_file, environment, api };

struct ConfigOrigin {
  ConfigLayer layer = ConfigLayer::built_in;
  std::string place;  ///< "FILE:LINE" or the variable's name; empty for the other layers

  std::string to_string() const;
};

/// Where the layers come from. Tests fill it in; the product takes of_process().
struct ConfigSources {
  std::map<std::string, std::string> overrides;    ///< from the API, by key
  std::map<std::string, std::string> environment;  ///< by variable, all of them
  std::string system_file = "/etc/slipring/slipring.toml";

  static ConfigSources of_process(std::map<std::string, std::string> overrides = {});
};

class Config {
 public:
  Config() : origins_(config_keys().size()) {}  ///< built-in defaults

  static Result<Config> load(const std::map<std::string, std::string>& overrides = {});
  static Result<Config> load_from(const ConfigSources& sources);

  const ConfigValues& values() const noexcept { return values_; }
  /// nullptr when there is no such key.
  const ConfigOrigin* origin(std::string_view key) const noexcept;
  /// Unknown keys and variables, each with the nearest known name; see configure_log for logging them.
  const std::vector<std::string>& warnings() const noexcept { return warnings_; }
  /// A config file with every value, its meaning and its origin. Loading it gives the same values.
  std::string to_toml() const;

 private:
  friend class ConfigLoader;
  ConfigValues values_;
  std::vector<ConfigOrigin> origins_;  // by index of config_keys()
  std::vector<std::string> warnings_;
};

/// Reference of all keys and variables, as docs/config.md holds it.
std::string config_markdown();

}  // namespace slipring::base
