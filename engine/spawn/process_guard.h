// ProcessGuard: a process group whose members do not outlive this process, whatever kills it.
//
// A small process leads the group and waits for the end of its owner, which it sees as the end of a pipe;
// then it kills the group, also what the ranks have started themselves, and removes the job's directory. The
// leader keeps the group's id from being given to others. Start it before the first thread if possible: it is
// a fork without exec. One owner; the destructor kills the group and reaps the leader.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "base/file_descriptor.h"
#include "slipring/status.h"

namespace slipring::engine {

class ProcessGuard {
 public:
  /// `directory`, if not empty, is removed with its contents when the owner dies before the guard.
  static Result<std::unique_ptr<ProcessGuard>> start(const std::string& directory);
  ~ProcessGuard();
  ProcessGuard(const ProcessGuard&) = delete;
  ProcessGuard& operator=(const ProcessGuard&) = delete;

  pid_t group() const noexcept { return leader_; }

 private:
  ProcessGuard(pid_t leader, base::FileDescriptor lifeline) noexcept
      : leader_(leader), lifeline_(std::move(lifeline)) {}
  pid_t leader_;
  base::FileDescriptor lifeline_;  // its closing, by whatever means, is what the leader waits for
};

}  // namespace slipring::engine
