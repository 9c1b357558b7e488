// Starting one rank: fork, set it up so that it dies with this process, exec; and how it ended, in words.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

#include "slipring/status.h"

namespace slipring::engine {

struct ProcessImage {
  std::string path;
  std::vector<std::string> arguments;    ///< with the program's name
  std::vector<std::string> environment;  ///< KEY=VALUE
  pid_t group = 0;
  sigset_t signal_mask{};  ///< that the program starts with
  int output_fd = -1;      ///< becomes standard output; -1: this process's
  int error_fd = -1;       ///< becomes standard error; -1: this process's
};

/// Returns once the program has been entered; a program that cannot be executed is an error here.
Result<pid_t> start_process(const ProcessImage& image);

/// The file that a shell would run for `program`.
Result<std::string> find_program(const std::string& program);

/// "exited with status 3" or "was killed by signal 9 (Killed)", from waitpid's status.
std::string describe_end(int wait_status);
/// As a shell gives it: the exit status, or 128 + signal.
int shell_status(int wait_status) noexcept;

}  // namespace slipring::engine
