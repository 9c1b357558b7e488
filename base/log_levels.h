// The vocabulary of logging: levels, subsystems, and the text form of "which subsystem logs what".
//
// A specification is one level for all, exceptions by subsystem, or both in any order: "warn,store=debug".
// Without a level for all, it is warn. Pure functions, any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "slipring/status.h"

namespace slipring::base {

/// Ordered: a threshold lets everything up to itself pass.
enum class LogLevel : std::uint8_t { off, error, warn, info, debug, trace };
inline constexpr std::array<std::string_view, 6> kLogLevelNames{"off",  "error", "warn",
                                                                "info", "debug", "trace"};

enum class Subsystem : std::uint8_t {
  config,
  segment,
  store,
  startup,
  channel,
  collectives,
  communicator,
  tools
};
inline constexpr std::array<std::string_view, 8> kSubsystemNames{
    "config", "segment", "store", "startup", "channel", "collectives", "communicator", "tools"};
inline constexpr std::size_t kSubsystemCount = kSubsystemNames.size();

/// Threshold of each subsystem.
using LogLevels = std::array<LogLevel, kSubsystemCount>;

/// invalid_argument naming the part that is wrong and the words that are known.
Result<LogLevels> parse_log_levels(std::string_view specification);

}  // namespace slipring::base
