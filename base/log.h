// Logging by level and subsystem. The only door to spdlog: nothing else includes it.
//
//   SLIPRING_LOG(debug, store, "key {} set by rank {}", key, rank);
//
// A line that its subsystem's threshold rejects costs one relaxed load and a branch: the arguments are
// neither formatted nor evaluated, so they must have no effects. Lines carry time (UTC), level, subsystem,
// rank if known, and pid; each is one write(2), so lines of threads and processes do not mix. Any thread,
// also in a child after fork: no lock is taken. Failure to write loses the line, never the caller's
// operation. Before configure_log the thresholds are warn and lines go to standard error.
#pragma once

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <string>

#include "base/log_levels.h"
#include "slipring/status.h"

namespace slipring::base {

class Config;

/// Takes log.level and log.file from the configuration, for the whole process (the last call wins), then logs
/// the configuration's warnings, each once per process. Fails when log.file cannot be opened; then lines
/// keep going where they went before.
Status configure_log(const Config& config);

/// The rank that lines of this thread carry; threads that never call it show the process's. -1: none.
void set_log_rank_of_thread(int rank) noexcept;
void set_log_rank_of_process(int rank) noexcept;

namespace log_internal {
extern std::array<std::atomic<LogLevel>, kSubsystemCount> thresholds;
[[gnu::cold]] void write(LogLevel level, Subsystem subsystem, fmt::string_view text,
                         fmt::format_args arguments) noexcept;

template <class... Args>
[[gnu::cold, gnu::noinline]] void format(LogLevel level, Subsystem subsystem,
                                         fmt::format_string<Args...> text, Args&&... args) noexcept {
  write(level, subsystem, text, fmt::make_format_args(args...));
}
}  // namespace log_internal

/// Whether a line would be written; for work that only serves a line.
inline bool log_enabled(LogLevel level, Subsystem subsystem) noexcept {
  // relaxed: a threshold guards no other data; a line just after a change may still obey the old one.
  return level <=
         log_internal::thresholds[static_cast<std::size_t>(subsystem)].load(std::memory_order_relaxed);
}

}  // namespace slipring::base

#define SLIPRING_LOG(level, subsystem, ...)                                                        \
  do {                                                                                             \
    if (::slipring::base::log_enabled(::slipring::base::LogLevel::level,                           \
                                      ::slipring::base::Subsystem::subsystem)) [[unlikely]] {      \
      ::slipring::base::log_internal::format(::slipring::base::LogLevel::level,                    \
                                             ::slipring::base::Subsystem::subsystem, __VA_ARGS__); \
    }                                                                                              \
  } while (false)
