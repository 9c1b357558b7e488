// run_ranks: starts the N ranks of one job on this host, looks after them, and returns when all have ended.
//
// Hosts the job's store and gives every rank SLIPRING_RANK, _SIZE, _LOCAL_RANK, _STORE and _JOB_TOKEN. When a
// rank ends badly the others are asked to end (SIGTERM) and after a grace made to (SIGKILL); SIGINT, SIGTERM,
// SIGHUP and SIGQUIT are passed on. Nothing outlives the call, and nothing outlives the caller: the ranks,
// and what they have started, die with this process even if it is killed. Ranks read standard input from
// /dev/null. One call at a time per process, on a thread that lives until it returns; the signals named above
// are blocked in that thread meanwhile. Failure: a bad Status if the ranks could not be started; how they
// ended is the value.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "slipring/status.h"

namespace slipring::engine {

enum class RunStore { tcp, file };

struct RunOptions {
  int size = 1;
  std::string program;  ///< looked up in PATH if it has no slash; "/proc/self/exe" is this program
  std::vector<std::string> arguments;                            ///< without the program's name
  std::vector<std::pair<std::string, std::string>> environment;  ///< beside this process's own
  RunStore store = RunStore::tcp;
  std::chrono::milliseconds timeout{0};   ///< of the whole job; 0: none
  std::chrono::milliseconds grace{5000};  ///< between SIGTERM and SIGKILL
  bool label = false;                     ///< put "[rank] " before each line of output
  bool end_others = true;                 ///< false: ranks are left to notice by themselves that one died
  /// One sentence per event, e.g. "rank 2 (pid 4711) was killed by signal 9 (Killed)". Empty: the log.
  std::function<void(std::string_view)> report;
};

/// Exit status of a job that ran into RunOptions::timeout.
inline constexpr int kRunTimedOut = 124;

/// 0, or the status of the rank that failed first: its exit status, or 128 + signal; kRunTimedOut after a
/// timeout.
Result<int> run_ranks(const RunOptions& options);

}  // namespace slipring::engine
