#include "base/config.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <sstream>

#include "base/nearest_name.h"
#include "base/status.h"

namespace slipring::base {
namespace {

constexpr std::string_view kVariablePrefix = "SLIPRING_";
constexpr const char* kNamedFileVariable = "SLIPRING_CONFIG";
/// Far above any real file; keeps a device or a wrong path from being read for ever.
constexpr std::size_t kMaxFileBytes = 1 << 20;

std::string_view lookup(const std::map<std::string, std::string>& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string_view() : std::string_view(found->second);
}

std::string user_file_of(const std::map<std::string, std::string>& environment) {
  const std::string_view xdg = lookup(environment, "XDG_CONFIG_HOME");
  // The XDG specification wants relative paths to be ignored.
  if (xdg.starts_with('/')) return fmt::format("{}/slipring/slipring.toml", xdg);
  const std::string_view home = lookup(environment, "HOME");
  return home.empty() ? std::string() : fmt::format("{}/.config/slipring/slipring.toml", home);
}

/// The whole file, or the errno that kept it from being read (EFBIG above kMaxFileBytes).
struct FileText {
  int error_number = 0;
  std::string text;
};

FileText read_file(const std::string& path) {
  // O_NONBLOCK: a FIFO in the place of a file must not hang the start.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return {errno, {}};
  FileText file;
  char buffer[4096];
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) file.error_number = errno;
    if (got <= 0) break;
    file.text.append(buffer, static_cast<std::size_t>(got));
    if (file.text.size() > kMaxFileBytes) {
      file.error_number = EFBIG;
      break;
    }
  }
  ::close(fd);
  return file;
}

/// `nearest` as the clause of a message.
std::string suggestion(std::string_view what, std::string_view nearest) {
  if (nearest.empty()) return fmt::format("no known {} resembles it; slipring-info --config lists all", what);
  return fmt::format("nearest known {} {}", what, nearest);
}

std::string nearest_key(std::string_view name) {
  std::vector<std::string_view> names;
  for (const ConfigKey& key : config_keys()) names.push_back(key.name);
  return suggestion("key", nearest_name(name, names));
}

std::string nearest_variable(std::string_view name) {
  std::vector<std::string_view> names;
  for (const ConfigKey& key : config_keys()) names.push_back(key.variable);
  for (const ConfigVariable& variable : config_variables()) names.push_back(variable.name);
  return suggestion("variable", nearest_name(name, names));
}

bool is_listed_variable(std::string_view name) {
  for (const ConfigVariable& variable : config_variables())
    if (variable.name == name) return true;
  return false;
}

Status bad_value(const ConfigKey& key, const std::string& shown, const ConfigOrigin& origin,
                 std::string_view detail) {
  Status status = error(StatusCode::invalid_argument, "config key {} has value {} from {}; allowed is {}",
                        key.name, shown, origin.to_string(), key.describe_allowed());
  return detail.empty() ? status : std::move(status).with(detail);
}

/// The node as a value of the type; an integer stands for a number, nothing else is converted.
std::optional<ConfigValue> value_of(std::size_t type_index, const toml::node& node) {
  switch (type_index) {
    case 0:
      if (const auto* b = node.as_boolean()) return b->get();
      return std::nullopt;
    case 1:
      if (const auto* n = node.as_integer()) return n->get();
      return std::nullopt;
    case 2:
      // Text goes through the parser of plain values, which refuses what is not finite.
      if (const auto* d = node.as_floating_point()) return parse_config_value(2, fmt::format("{}", d->get()));
      if (const auto* n = node.as_integer()) return static_cast<double>(n->get());
      return std::nullopt;
    default:
      if (const auto* s = node.as_string()) return s->get();
      return std::nullopt;
  }
}

std::string shown(const toml::node& node) {
  std::ostringstream text;
  node.visit([&](const auto& concrete) { text << concrete; });
  return text.str();
}

}  // namespace

/// Applies layers to a Config, lowest first, so that each simply overwrites.
class ConfigLoader {
 public:
  Status load(const ConfigSources& sources) {
    if (Status s = apply_optional_file(sources.system_file, ConfigLayer::system_file); !s) return s;
    if (Status s = apply_optional_file(user_file_of(sources.environment), ConfigLayer::user_file); !s)
      return s;
    if (Status s = apply_named_file(std::string(lookup(sources.environment, kNamedFileVariable))); !s)
      return s;
    if (Status s = apply_environment(sources.environment); !s) return s;
    return apply_overrides(sources.overrides);
  }

  Config take() && { return std::move(config_); }

 private:
  Status set(std::size_t index, std::optional<ConfigValue> value, const std::string& shown_value,
             ConfigOrigin origin) {
    const ConfigKey& key = config_keys()[index];
    if (!value) return bad_value(key, shown_value, origin, {});
    if (const Status accepted = key.allowed.accept(*value); !accepted)
      return bad_value(key, shown_value, origin, accepted.message());
    key.set(config_.values_, *std::move(value));
    config_.origins_[index] = std::move(origin);
    return {};
  }

  Status set_text(std::size_t index, std::string_view text, ConfigOrigin origin) {
    return set(index, parse_config_value(config_keys()[index].field.index(), text),
               toml_literal(std::string(text)), std::move(origin));
  }

  Status apply_optional_file(const std::string& path, ConfigLayer layer) {
    if (path.empty()) return {};
    const FileText file = read_file(path);
    if (file.error_number == ENOENT || file.error_number == ENOTDIR) return {};
    if (file.error_number != 0) {
      // A home that this user may not enter is common in containers, and no reason to refuse to run.
      config_.warnings_.push_back(errno_error(file.error_number, "read config file " + path).message() +
                                  "; its values are not used");
      return {};
    }
    return apply_toml(file.text, path, layer);
  }

  Status apply_named_file(const std::string& path) {
    if (path.empty()) return {};
    const FileText file = read_file(path);
    if (file.error_number != 0) {
      return error(StatusCode::invalid_argument,
                   "{} names file {}, which cannot be read: {}; correct or unset the variable",
                   kNamedFileVariable, path, errno_error(file.error_number, "read").message());
    }
    return apply_toml(file.text, path, ConfigLayer::named_file);
  }

  Status apply_toml(std::string_view text, const std::string& path, ConfigLayer layer) {
    try {
      const toml::table table = toml::parse(text, path);
      return apply_table(table, "", path, layer);
    } catch (const toml::parse_error& failure) {
      return error(StatusCode::invalid_argument, "config file {}:{}:{} is not TOML: {}", path,
                   failure.source().begin.line, failure.source().begin.column, failure.description());
    }
  }

  Status apply_table(const toml::table& table, const std::string& prefix, const std::string& path,
                     ConfigLayer layer) {
    for (const auto& [name, node] : table) {
      const std::string key_name = prefix + std::string(name.str());
      ConfigOrigin origin{layer, fmt::format("{}:{}", path, node.source().begin.line)};
      if (const auto index = index_of(key_name)) {
        auto value = value_of(config_keys()[*index].field.index(), node);
        if (Status s = set(*index, std::move(value), shown(node), std::move(origin)); !s) return s;
      } else if (const toml::table* inner = node.as_table()) {
        if (Status s = apply_table(*inner, key_name + ".", path, layer); !s) return s;
      } else {
        config_.warnings_.push_back(
            fmt::format("unknown config key {} in {}; {}", key_name, origin.place, nearest_key(key_name)));
      }
    }
    return {};
  }

  Status apply_environment(const std::map<std::string, std::string>& environment) {
    for (auto entry = environment.lower_bound(std::string(kVariablePrefix));
         entry != environment.end() && entry->first.starts_with(kVariablePrefix); ++entry) {
      const auto& [name, text] = *entry;
      if (const auto index = index_of_variable(name)) {
        if (Status s = set_text(*index, text, {ConfigLayer::environment, name}); !s) return s;
      } else if (!is_listed_variable(name)) {
        config_.warnings_.push_back(
            fmt::format("unknown environment variable {}; {}", name, nearest_variable(name)));
      }
    }
    return {};
  }

  Status apply_overrides(const std::map<std::string, std::string>& overrides) {
    for (const auto& [name, text] : overrides) {
      const auto index = index_of(name);
      if (!index) {
        return error(StatusCode::invalid_argument, "unknown config key {} with value {} from the API; {}",
                     toml_literal(name), toml_literal(text), nearest_key(name));
      }
      if (Status s = set_text(*index, text, {ConfigLayer::api, ""}); !s) return s;
    }
    return {};
  }

  static std::optional<std::size_t> index_of(std::string_view name) {
    const auto keys = config_keys();
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (keys[i].name == name) return i;
    return std::nullopt;
  }

  static std::optional<std::size_t> index_of_variable(std::string_view variable) {
    const auto keys = config_keys();
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (keys[i].variable == variable) return i;
    return std::nullopt;
  }

  Config config_;
};

ConfigSources ConfigSources::of_process(std::map<std::string, std::string> overrides) {
  ConfigSources sources;
  sources.overrides = std::move(overrides);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != text.npos) sources.environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return sources;
}

Result<Config> Config::load(const std::map<std::string, std::string>& overrides) {
  return load_from(ConfigSources::of_process(overrides));
}

Result<Config> Config::load_from(const ConfigSources& sources) {
  ConfigLoader loader;
  if (Status status = loader.load(sources); !status) return status;
  return std::move(loader).take();
}

const ConfigOrigin* Config::origin(std::string_view key) const noexcept {
  const auto keys = config_keys();
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (keys[i].name == key) return &origins_[i];
  return nullptr;
}

}  // namespace slipring::base
