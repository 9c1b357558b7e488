#include "base/log.h"

#include <fcntl.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/sink.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>

#include "base/config.h"
#include "base/status.h"

namespace slipring::base {
namespace {

constexpr int kNoRank = -1;
thread_local int rank_of_thread = kNoRank;
std::atomic<int> rank_of_process{kNoRank};

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::off:
      return spdlog::level::off;
    case LogLevel::error:
      return spdlog::level::err;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::trace:
      return spdlog::level::trace;
  }
  return spdlog::level::off;
}

std::string_view level_name(spdlog::level::level_enum level) {
  for (std::size_t i = 0; i < kLogLevelNames.size(); ++i)
    if (to_spdlog(static_cast<LogLevel>(i)) == level) return kLogLevelNames[i];
  return "unknown";
}

/// UTC by arithmetic: gmtime_r takes a lock of the C library that a fork can leave held in the child.
void append_time(fmt::memory_buffer& line, std::chrono::system_clock::time_point time) {
  using namespace std::chrono;
  const auto micros = floor<microseconds>(time);
  const auto day = floor<days>(micros);
  const year_month_day date(day);
  const hh_mm_ss clock(micros - day);
  fmt::format_to(std::back_inserter(line), "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z",
                 static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                 static_cast<unsigned>(date.day()), clock.hours().count(), clock.minutes().count(),
                 clock.seconds().count(), clock.subseconds().count());
}

/// Text may quote what a peer or a file sent: a control character must not forge a line or drive a terminal.
void append_printable(fmt::memory_buffer& line, spdlog::string_view_t text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      fmt::format_to(std::back_inserter(line), "\\x{:02x}", byte);
    } else {
      line.push_back(c);
    }
  }
}

void write_whole(int fd, const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t wrote = ::write(fd, data, bytes);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return;
    data += wrote;
    bytes -= static_cast<std::size_t>(wrote);
  }
}

/// Formats and writes without state of its own beyond two descriptors, hence without a lock that a fork could
/// leave held.
class LineSink final : public spdlog::sinks::sink {
 public:
  void log(const spdlog::details::log_msg& message) override {
    fmt::memory_buffer line;
    append_time(line, message.time);
    fmt::format_to(std::back_inserter(line), " {} {}", level_name(message.level), message.logger_name);
    // relaxed: a number that guards nothing
    const int rank =
        rank_of_thread != kNoRank ? rank_of_thread : rank_of_process.load(std::memory_order_relaxed);
    if (rank != kNoRank) fmt::format_to(std::back_inserter(line), " rank {}", rank);
    fmt::format_to(std::back_inserter(line), " pid {}: ", ::getpid());
    append_printable(line, message.payload);
    line.push_back('\n');
    // acquire: pairs with the release in write_to_file, so that the descriptor is open
    write_whole(target_.load(std::memory_order_acquire), line.data(), line.size());
  }
  void flush() override {}
  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}

  void write_to_stderr() { target_.store(STDERR_FILENO, std::memory_order_release); }

  /// A thread may be writing to the current file: its descriptor is never closed, only pointed elsewhere by
  /// dup3, which is atomic against that write.
  Status write_to_file(const std::string& path) {
    const int opened = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (opened < 0) return errno_error(errno, fmt::format("open log.file {}", path));
    int owned = -1;
    // acq_rel: publishes the open descriptor, or takes the one that another thread published
    if (file_.compare_exchange_strong(owned, opened, std::memory_order_acq_rel)) {
      owned = opened;
    } else {
      const int failed = ::dup3(opened, owned, O_CLOEXEC) < 0 ? errno : 0;
      ::close(opened);
      if (failed != 0) return errno_error(failed, fmt::format("dup3 for log.file {}", path));
    }
    target_.store(owned, std::memory_order_release);
    return {};
  }

 private:
  std::atomic<int> target_{STDERR_FILENO};
  std::atomic<int> file_{-1};
};

/// Private to this library: spdlog's registry and the host program's default logger are never touched.
struct Loggers {
  std::shared_ptr<LineSink> sink = std::make_shared<LineSink>();
  std::array<std::unique_ptr<spdlog::logger>, kSubsystemCount> by_subsystem;

  Loggers() {
    for (std::size_t i = 0; i < kSubsystemCount; ++i) {
      by_subsystem[i] = std::make_unique<spdlog::logger>(std::string(kSubsystemNames[i]), sink);
      by_subsystem[i]->set_level(spdlog::level::trace);  // the thresholds decide
      by_subsystem[i]->set_error_handler([](const std::string&) {});
    }
  }
};

/// Made at load time, never destroyed: threads may log while the process exits, and a lazily made one could
/// be half made in a forked child.
Loggers* const loggers = new Loggers;

/// Remembers what was logged once, by hash, without a lock. When full, repeats are logged again.
class OnceSet {
 public:
  bool insert(std::string_view text) {
    const std::size_t hash = std::hash<std::string_view>{}(text) | 1;  // 0 marks a free place
    for (auto& place : places_) {
      std::size_t seen = 0;
      // relaxed: the hash itself is all that is shared
      if (place.compare_exchange_strong(seen, hash, std::memory_order_relaxed)) return true;
      if (seen == hash) return false;
    }
    return true;
  }

 private:
  std::array<std::atomic<std::size_t>, 256> places_{};
};
OnceSet logged_warnings;

void log_warnings_once(const Config& config) {
  for (const std::string& warning : config.warnings()) {
    // Checked first, so that a warning that was not wanted now is still there when it is.
    if (log_enabled(LogLevel::warn, Subsystem::config) && logged_warnings.insert(warning))
      SLIPRING_LOG(warn, config, "{}", warning);
  }
}

}  // namespace

namespace log_internal {

static_assert(kSubsystemCount == 8, "one warn below per subsystem");
constinit std::array<std::atomic<LogLevel>, kSubsystemCount> thresholds{
    LogLevel::warn, LogLevel::warn, LogLevel::warn, LogLevel::warn,
    LogLevel::warn, LogLevel::warn, LogLevel::warn, LogLevel::warn};

void write(LogLevel level, Subsystem subsystem, fmt::string_view text, fmt::format_args arguments) noexcept {
  if (loggers == nullptr) return;  // a constructor of another file logs before this one is set up
  try {
    loggers->by_subsystem[static_cast<std::size_t>(subsystem)]->log(to_spdlog(level),
                                                                    fmt::vformat(text, arguments));
  } catch (...) {
    // Formatting ran out of memory; the line is lost, the operation goes on.
  }
}

}  // namespace log_internal

Status configure_log(const Config& config) {
  const ConfigValues& values = config.values();
  const Result<LogLevels> levels = parse_log_levels(values.log_level);
  if (!levels) return levels.status();
  if (values.log_file.empty()) {
    loggers->sink->write_to_stderr();
  } else if (Status status = loggers->sink->write_to_file(values.log_file); !status) {
    return status;
  }
  for (std::size_t i = 0; i < kSubsystemCount; ++i)
    log_internal::thresholds[i].store(levels.value()[i], std::memory_order_relaxed);  // as in log_enabled
  log_warnings_once(config);
  return {};
}

void set_log_rank_of_thread(int rank) noexcept {
  rank_of_thread = rank;
}
void set_log_rank_of_process(int rank) noexcept {
  rank_of_process.store(rank, std::memory_order_relaxed);
}

}  // namespace slipring::base
