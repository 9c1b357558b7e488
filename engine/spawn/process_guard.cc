#include "engine/spawn/process_guard.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>

#include "base/status.h"

namespace slipring::engine {
namespace {

// Everything below runs after fork without exec: async-signal-safe calls only.

void detach_from_files(int lifeline) {
  // The owner's files, sockets and output must not stay open through this process.
  const int null = open("/dev/null", O_RDWR);
  if (null >= 0) {
    for (int fd = 0; fd <= 2; ++fd) dup2(null, fd);
  }
  if (lifeline != 3) dup2(lifeline, 3);
  close_range(4, ~0U, 0);
}

void kill_group_and_remove(pid_t group, const char* directory) {
  kill(-group, SIGKILL);
  if (directory[0] == '\0') return;
  // A member that is still inside a system call could create a file yet: wait, bounded, until all are gone.
  for (int i = 0; i < 200 && kill(-group, 0) == 0; ++i) {
    const timespec pause{0, 10'000'000};
    nanosleep(&pause, nullptr);
  }
  execl("/bin/rm", "rm", "-rf", "--", directory, static_cast<char*>(nullptr));
}

[[noreturn]] void guard(int lifeline, const char* directory) {
  setpgid(0, 0);
  prctl(PR_SET_NAME, "slipring-guard");
  // Signals for the group are for the ranks.
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  detach_from_files(lifeline);
  char byte;
  ssize_t n = 0;
  do {
    n = read(3, &byte, 1);
  } while (n > 0 || (n < 0 && errno == EINTR));
  // A child outside the group survives killing it, while this process keeps the group's id in use.
  const pid_t group = getpid();
  const pid_t child = fork();
  if (child <= 0) {
    setpgid(0, 0);
    kill_group_and_remove(group, directory);
    _exit(0);
  }
  for (;;) pause();
}

}  // namespace

Result<std::unique_ptr<ProcessGuard>> ProcessGuard::start(const std::string& directory) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return base::errno_error(errno, "pipe");
  const base::FileDescriptor read_end(ends[0]);
  base::FileDescriptor write_end(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return base::errno_error(errno, "fork");
  if (pid == 0) {
    ::close(write_end.get());
    guard(read_end.get(), directory.c_str());
  }
  // Both sides set the group, so that it exists before either goes on.
  setpgid(pid, pid);
  return std::unique_ptr<ProcessGuard>(new ProcessGuard(pid, std::move(write_end)));
}

ProcessGuard::~ProcessGuard() {
  kill(-leader_, SIGKILL);
  while (waitpid(leader_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace slipring::engine
