#include "engine/rank_environment.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>

#include "base/file_descriptor.h"
#include "base/status.h"
#include "engine/store/job_token.h"

namespace slipring::engine {
namespace {

// What a launcher's variables say; absent ones stay empty, and empty ones count as absent.
struct LauncherValues {
  std::optional<int> rank;
  std::optional<int> size;
  std::string store_url;
  std::string job_token;
};

struct Launcher {
  std::string_view name;
  std::string_view rank_variable;  // named in errors
  std::string_view size_variable;
  Result<LauncherValues> (*read)(const EnvironmentLookup& lookup);
};

Result<std::optional<int>> read_number(const EnvironmentLookup& lookup, const char* name, int least) {
  const std::optional<std::string> text = lookup(name);
  if (!text) return std::optional<int>();
  int number = 0;
  const char* end = text->data() + text->size();
  const auto [stop, problem] = std::from_chars(text->data(), end, number);
  if (problem != std::errc() || stop != end || number < least) {
    return base::error(StatusCode::invalid_argument,
                       "{}=\"{}\" is no whole number of at least {}; correct or unset it", name,
                       text->substr(0, 64), least);
  }
  return std::optional<int>(number);
}

Result<std::string> read_token_file(const std::string& path) {
  const base::FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return base::errno_error(errno, "open of SLIPRING_JOB_TOKEN_FILE " + path);
  // One byte more than a token and a newline may have, to tell a long one from a cut one.
  std::string token(kMaxJobTokenBytes + 2, '\0');
  std::size_t bytes = 0;
  while (bytes < token.size()) {
    const ssize_t n = read(file.get(), token.data() + bytes, token.size() - bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return base::errno_error(errno, "read of SLIPRING_JOB_TOKEN_FILE " + path);
    if (n == 0) break;
    bytes += static_cast<std::size_t>(n);
  }
  token.resize(bytes);
  while (token.ends_with('\n') || token.ends_with('\r')) token.pop_back();
  if (Status status = check_job_token(token); !status) {
    return std::move(status).with("SLIPRING_JOB_TOKEN_FILE " + path);
  }
  return token;
}

Result<std::string> read_token(const EnvironmentLookup& lookup) {
  std::string direct = lookup("SLIPRING_JOB_TOKEN").value_or("");
  const std::optional<std::string> path = lookup("SLIPRING_JOB_TOKEN_FILE");
  if (!path) return direct;
  Result<std::string> token = read_token_file(*path);
  if (token && !direct.empty() && direct != *token) {
    return base::error(
        StatusCode::invalid_argument,
        "SLIPRING_JOB_TOKEN and the file {} named by SLIPRING_JOB_TOKEN_FILE hold different tokens; "
        "unset one",
        *path);
  }
  return token;
}

Result<LauncherValues> read_slipring_run(const EnvironmentLookup& lookup) {
  LauncherValues values;
  Result<std::optional<int>> rank = read_number(lookup, "SLIPRING_RANK", 0);
  if (!rank) return std::move(rank).status();
  Result<std::optional<int>> size = read_number(lookup, "SLIPRING_SIZE", 1);
  if (!size) return std::move(size).status();
  Result<std::string> token = read_token(lookup);
  if (!token) return std::move(token).status();
  values.rank = *rank;
  values.size = *size;
  values.store_url = lookup("SLIPRING_STORE").value_or("");
  values.job_token = std::move(*token);
  return values;
}

// The order of precedence. Each launcher is one entry; the first one that set any of its variables counts.
constexpr std::array kLaunchers{
    Launcher{"slipring-run", "SLIPRING_RANK", "SLIPRING_SIZE", read_slipring_run},
};

bool is_any_set(const LauncherValues& values) {
  return values.rank || values.size || !values.store_url.empty() || !values.job_token.empty();
}

LauncherValues values_of_api(const JobOptions& options) {
  LauncherValues values;
  if (options.rank != -1) values.rank = options.rank;
  if (options.size != -1) values.size = options.size;
  values.store_url = options.store;
  values.job_token = options.job_token;
  return values;
}

Status check_rank_and_size(const LauncherValues& values, const Launcher& launcher) {
  if (!values.rank && !values.size) {
    return base::error(
        StatusCode::invalid_argument,
        "rank and size of this process are unknown: neither JobOptions nor {} and {} say; start the "
        "program with: slipring-run -n N PROGRAM",
        launcher.rank_variable, launcher.size_variable);
  }
  if (!values.rank || !values.size) {
    const std::string_view have = values.rank ? "rank" : "size";
    const std::string_view lack = values.rank ? "size" : "rank";
    return base::error(StatusCode::invalid_argument,
                       "{} {} is given but no {}; set both {} and {}, or both in JobOptions", have,
                       values.rank ? *values.rank : *values.size, lack, launcher.rank_variable,
                       launcher.size_variable);
  }
  if (*values.size < 1 || *values.rank < 0 || *values.rank >= *values.size) {
    return base::error(StatusCode::invalid_argument,
                       "rank {} outside 0 to size - 1, size {}; check {} and {}, or JobOptions", *values.rank,
                       *values.size, launcher.rank_variable, launcher.size_variable);
  }
  return {};
}

Status check_meeting_place(const LauncherValues& values) {
  if (*values.size == 1 && values.store_url.empty() == values.job_token.empty()) return {};
  if (values.store_url.empty()) {
    return base::error(
        StatusCode::invalid_argument,
        "rank {} of {} does not know where to meet: set SLIPRING_STORE, e.g. tcp://127.0.0.1:29500, or "
        "JobOptions.store",
        *values.rank, *values.size);
  }
  if (values.job_token.empty()) {
    return base::error(
        StatusCode::invalid_argument,
        "rank {} of {} has no job token for store {}: set SLIPRING_JOB_TOKEN or SLIPRING_JOB_TOKEN_FILE, "
        "or JobOptions.job_token, to the same secret on all ranks, e.g. from: openssl rand -hex 32",
        *values.rank, *values.size, values.store_url);
  }
  return check_job_token(values.job_token);
}

// Fields of `first` win. Whether `second` had anything to add.
bool fill_from(LauncherValues& first, const LauncherValues& second) {
  const bool adds = (!first.rank && second.rank) || (!first.size && second.size) ||
                    (first.store_url.empty() && !second.store_url.empty()) ||
                    (first.job_token.empty() && !second.job_token.empty());
  if (!first.rank) first.rank = second.rank;
  if (!first.size) first.size = second.size;
  if (first.store_url.empty()) first.store_url = second.store_url;
  if (first.job_token.empty()) first.job_token = second.job_token;
  return adds;
}

}  // namespace

std::optional<std::string> process_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Result<RankEnvironment> rank_environment(const JobOptions& options, const EnvironmentLookup& lookup) {
  LauncherValues values = values_of_api(options);
  std::string source = is_any_set(values) ? "API" : "";
  const Launcher* chosen = &kLaunchers.front();
  for (const Launcher& launcher : kLaunchers) {
    Result<LauncherValues> read = launcher.read(lookup);
    if (!read) return std::move(read).status();
    if (!is_any_set(*read)) continue;
    chosen = &launcher;
    // A program that makes its own job of one rank meets nobody, least of all the job that it was started in.
    if (options.size == 1 && options.store.empty()) {
      read->store_url.clear();
      read->job_token.clear();
    }
    if (fill_from(values, *read)) {
      source += (source.empty() ? "" : " and ") + std::string(launcher.name);
    }
    break;
  }
  if (Status status = check_rank_and_size(values, *chosen); !status) return status;
  if (Status status = check_meeting_place(values); !status) return status;
  return RankEnvironment{*values.rank, *values.size, std::move(values.store_url), std::move(values.job_token),
                         std::move(source)};
}

}  // namespace slipring::engine
