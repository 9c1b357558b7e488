#include "engine/spawn.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "base/log.h"
#include "base/status.h"
#include "engine/spawn/labelled_output.h"
#include "engine/spawn/process_guard.h"
#include "engine/spawn/rank_process.h"
#include "engine/spawn/signal_inbox.h"
#include "engine/store/gather_all.h"
#include "engine/store/job_token.h"
#include "engine/store/tcp_store_server.h"

namespace slipring::engine {
namespace {

using std::chrono::milliseconds;

constexpr std::array<std::string_view, 6> kOwnVariables{"SLIPRING_RANK",       "SLIPRING_SIZE",
                                                        "SLIPRING_LOCAL_RANK", "SLIPRING_STORE",
                                                        "SLIPRING_JOB_TOKEN",  "SLIPRING_JOB_TOKEN_FILE"};
// A child's end may be signalled to another thread of this process, where it is lost: look from time to time.
constexpr int kLookMs = 200;
constexpr milliseconds kFlushLimit{2000};

// A directory that is gone when its owner is.
class JobDirectory {
 public:
  JobDirectory() = default;
  JobDirectory(const JobDirectory&) = delete;
  JobDirectory& operator=(const JobDirectory&) = delete;
  ~JobDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

  Status create() {
    const char* parent = std::getenv("TMPDIR");
    std::string path =
        std::string(parent != nullptr && parent[0] == '/' ? parent : "/tmp") + "/slipring-run-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) {
      return base::errno_error(errno, "mkdtemp " + path)
          .with("set TMPDIR to a directory that you may write to");
    }
    path_ = std::move(path);
    return {};
  }

  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

struct Rank {
  pid_t pid = -1;
  bool alive = false;
};

class Run {
 public:
  explicit Run(const RunOptions& options) : options_(options) {}

  Status start();
  int wait_for_end();

 private:
  // What has been done to make the ranks end.
  enum class Ending { no, asked, made };

  Status start_rank(int rank, const std::vector<std::string>& environment);
  std::vector<std::string> environment_without_own() const;
  void wait_for_events();
  void forward_signals();
  void reap();
  void note_failure(int rank, int wait_status);
  void check_time();
  void ask_to_end(int signal_number);
  void make_end();
  bool any_alive() const;
  std::string alive_ranks() const;
  void flush_output();
  void report(const std::string& sentence) const;

  const RunOptions& options_;
  // In this order: the ranks end before their store does, and the directory goes last.
  JobDirectory directory_;
  std::string job_token_;
  std::string store_url_;
  std::string program_;
  SignalInbox signals_;
  std::unique_ptr<TcpStoreServer> server_;
  std::unique_ptr<ProcessGuard> guard_;
  LabelledOutput output_;
  std::vector<Rank> ranks_;
  base::Deadline job_deadline_ = base::Deadline::never();
  base::Deadline grace_deadline_ = base::Deadline::never();
  Ending ending_ = Ending::no;
  std::optional<int> first_failure_;
};

void Run::report(const std::string& sentence) const {
  if (options_.report) {
    options_.report(sentence);
  } else {
    SLIPRING_LOG(error, startup, "{}", sentence);
  }
}

Status check_options(const RunOptions& options) {
  if (options.size < 1) {
    return base::error(StatusCode::invalid_argument, "size {} is no number of ranks; give at least 1",
                       options.size);
  }
  for (const auto& [name, value] : options.environment) {
    if (name.empty() || name.find('=') != std::string::npos) {
      return base::error(StatusCode::invalid_argument, "\"{}\" is no name of an environment variable", name);
    }
    if (std::find(kOwnVariables.begin(), kOwnVariables.end(), name) != kOwnVariables.end()) {
      return base::error(StatusCode::invalid_argument,
                         "{} is set for each rank by the launcher; leave it out", name);
    }
  }
  return {};
}

Status Run::start() {
  if (Status status = check_options(options_); !status) return status;
  Result<std::string> program = find_program(options_.program);
  if (!program) return std::move(program).status();
  program_ = std::move(*program);
  Result<std::string> token = make_job_token();
  if (!token) return std::move(token).status();
  job_token_ = std::move(*token);
  if (Status status = signals_.open(); !status) return status;
  if (options_.store == RunStore::file) {
    if (Status status = directory_.create(); !status) return status;
    store_url_ = "file://" + directory_.path();
  }
  // Before the server's thread: a fork without exec is simplest in a process with one thread.
  Result<std::unique_ptr<ProcessGuard>> guard = ProcessGuard::start(directory_.path());
  if (!guard) return std::move(guard).status();
  guard_ = std::move(*guard);
  if (options_.store == RunStore::tcp) {
    TcpStoreServerOptions server_options;
    server_options.job_token = job_token_;
    Result<std::unique_ptr<TcpStoreServer>> server = TcpStoreServer::start(std::move(server_options));
    if (!server) return std::move(server).status();
    server_ = std::move(*server);
    store_url_ = server_->url();
  }
  if (options_.timeout.count() > 0) job_deadline_ = base::Deadline::after(options_.timeout);
  const std::vector<std::string> environment = environment_without_own();
  for (int rank = 0; rank < options_.size; ++rank) {
    if (Status status = start_rank(rank, environment); !status) return status;
  }
  return {};
}

std::vector<std::string> Run::environment_without_own() const {
  std::vector<std::string> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    const std::string_view name = variable.substr(0, variable.find('='));
    const bool replaced =
        std::find(kOwnVariables.begin(), kOwnVariables.end(), name) != kOwnVariables.end() ||
        std::any_of(options_.environment.begin(), options_.environment.end(),
                    [name](const auto& given) { return given.first == name; });
    if (!replaced) kept.emplace_back(variable);
  }
  for (const auto& [name, value] : options_.environment) kept.push_back(name + "=" + value);
  return kept;
}

Status Run::start_rank(int rank, const std::vector<std::string>& environment) {
  ProcessImage image;
  image.path = program_;
  image.arguments = options_.arguments;
  image.arguments.insert(image.arguments.begin(), options_.program);
  image.environment = environment;
  image.environment.push_back(fmt::format("SLIPRING_RANK={}", rank));
  image.environment.push_back(fmt::format("SLIPRING_LOCAL_RANK={}", rank));
  image.environment.push_back(fmt::format("SLIPRING_SIZE={}", options_.size));
  image.environment.push_back("SLIPRING_STORE=" + store_url_);
  image.environment.push_back("SLIPRING_JOB_TOKEN=" + job_token_);
  image.group = guard_->group();
  image.signal_mask = signals_.mask_before();
  LabelledOutput::WriteEnds ends;
  if (options_.label) {
    Result<LabelledOutput::WriteEnds> made = output_.add_rank(rank);
    if (!made) return std::move(made).status();
    ends = std::move(*made);
    image.output_fd = ends.output.get();
    image.error_fd = ends.error.get();
  }
  Result<pid_t> pid = start_process(image);
  if (!pid)
    return std::move(pid).status().with(fmt::format("rank {} of {} not started", rank, options_.size));
  ranks_.push_back({*pid, true});
  return {};
}

int Run::wait_for_end() {
  while (any_alive()) {
    wait_for_events();
    forward_signals();
    reap();
    check_time();
  }
  guard_.reset();  // ends what the ranks have started and left behind
  flush_output();
  return first_failure_.value_or(0);
}

void Run::wait_for_events() {
  std::vector<pollfd> entries{{signals_.fd(), POLLIN, 0}};
  output_.fill_poll_entries(entries);
  const int timeout_ms = std::min(job_deadline_.left_ms(kLookMs), grace_deadline_.left_ms(kLookMs));
  if (poll(entries.data(), entries.size(), timeout_ms) > 0) output_.act(entries, 1);
}

void Run::forward_signals() {
  while (const int number = signals_.take()) {
    if (number == SIGCHLD) continue;
    // Who asks twice does not want to wait for the grace.
    if (ending_ != Ending::no) {
      make_end();
    } else {
      ask_to_end(number);
    }
  }
}

void Run::reap() {
  struct Ended {
    int rank;
    int wait_status;
  };
  std::vector<Ended> failed;
  for (int rank = 0; rank < options_.size; ++rank) {
    Rank& entry = ranks_[rank];
    int wait_status = 0;
    if (!entry.alive) continue;
    const pid_t reaped = waitpid(entry.pid, &wait_status, WNOHANG);
    if (reaped == 0 || (reaped < 0 && errno == EINTR)) continue;
    entry.alive = false;
    if (reaped == entry.pid && wait_status != 0) failed.push_back({rank, wait_status});
  }
  // Of ranks that are found dead at the same time, one that was killed is rather the cause than one that gave
  // up.
  std::stable_partition(failed.begin(), failed.end(),
                        [](const Ended& ended) { return WIFSIGNALED(ended.wait_status); });
  for (const Ended& ended : failed) note_failure(ended.rank, ended.wait_status);
}

void Run::note_failure(int rank, int wait_status) {
  const bool is_first = !first_failure_.has_value();
  // Ranks that end because they were made to are not news, unless nothing was said yet.
  if (!is_first && ending_ != Ending::no) return;
  if (is_first) first_failure_ = shell_status(wait_status);
  const bool ends_others = options_.end_others && ending_ == Ending::no && any_alive();
  report(fmt::format("rank {} (pid {}) {}{}", rank, ranks_[rank].pid, describe_end(wait_status),
                     ends_others ? "; ending the other ranks" : ""));
  if (ends_others) ask_to_end(SIGTERM);
}

void Run::check_time() {
  if (!any_alive()) return;
  if (ending_ == Ending::no && job_deadline_.passed()) {
    report(
        fmt::format("{} still running after {} ms; ending the job", alive_ranks(), options_.timeout.count()));
    first_failure_ = kRunTimedOut;
    ask_to_end(SIGTERM);
  } else if (ending_ == Ending::asked && grace_deadline_.passed()) {
    make_end();
  }
}

void Run::ask_to_end(int signal_number) {
  ending_ = Ending::asked;
  grace_deadline_ = base::Deadline::after(options_.grace);
  job_deadline_ = base::Deadline::never();
  kill(-guard_->group(), signal_number);
  kill(-guard_->group(), SIGCONT);  // a stopped rank must run to notice
}

void Run::make_end() {
  if (ending_ == Ending::made) return;
  ending_ = Ending::made;
  grace_deadline_ = base::Deadline::never();
  report(fmt::format("{} did not end within {} ms of being asked; killing", alive_ranks(),
                     options_.grace.count()));
  for (const Rank& rank : ranks_) {
    if (rank.alive) kill(rank.pid, SIGKILL);
  }
}

bool Run::any_alive() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.alive; });
}

std::string Run::alive_ranks() const {
  std::vector<int> alive;
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) {
    if (ranks_[rank].alive) alive.push_back(rank);
  }
  return fmt::format("{} {}", alive.size() == 1 ? "rank" : "ranks", format_ranks(alive));
}

// A reader of our output that is slow gets the rest; one that does not read at all cannot hold us for ever.
void Run::flush_output() {
  output_.drain();
  base::Deadline deadline = base::Deadline::after(kFlushLimit);
  while (output_.has_unwritten() && !deadline.passed()) {
    std::vector<pollfd> entries;
    output_.fill_poll_entries(entries);
    if (poll(entries.data(), entries.size(), deadline.left_ms(kLookMs)) <= 0) continue;
    output_.act(entries, 0);
    deadline = base::Deadline::after(kFlushLimit);
  }
}

}  // namespace

Result<int> run_ranks(const RunOptions& options) {
  Run run(options);
  if (Status status = run.start(); !status) return status;
  return run.wait_for_end();
}

}  // namespace slipring::engine
