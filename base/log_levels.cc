#include "base/log_levels.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/status.h"

namespace slipring::base {
namespace {

template <class Names>
std::optional<std::size_t> index_of(const Names& names, std::string_view word) {
  const auto found = std::find(names.begin(), names.end(), word);
  if (found == names.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace

Result<LogLevels> parse_log_levels(std::string_view specification) {
  std::array<std::optional<LogLevel>, kSubsystemCount> exceptions;
  std::optional<LogLevel> level_for_all;
  for (std::string_view rest = specification;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t equals = part.find('=');
    const std::string_view level_name = equals == part.npos ? part : part.substr(equals + 1);
    const auto level = index_of(kLogLevelNames, level_name);
    if (!level) {
      return error(StatusCode::invalid_argument, "unknown log level \"{}\"; levels are {}", level_name,
                   fmt::join(kLogLevelNames, ", "));
    }
    std::optional<LogLevel>* threshold = &level_for_all;
    if (equals != part.npos) {
      const auto subsystem = index_of(kSubsystemNames, part.substr(0, equals));
      if (!subsystem) {
        return error(StatusCode::invalid_argument, "unknown log subsystem \"{}\"; subsystems are {}",
                     part.substr(0, equals), fmt::join(kSubsystemNames, ", "));
      }
      threshold = &exceptions[*subsystem];
    }
    if (*threshold) {
      return error(StatusCode::invalid_argument, "log level \"{}\" contradicts an earlier part", part);
    }
    *threshold = static_cast<LogLevel>(*level);
    if (comma == rest.npos) break;
    rest.remove_prefix(comma + 1);
  }

  LogLevels levels;
  for (std::size_t i = 0; i < kSubsystemCount; ++i)
    levels[i] = exceptions[i].value_or(level_for_all.value_or(LogLevel::warn));
  return levels;
}

}  // namespace slipring::base
