// The system calls that containers, old kernels and seccomp filters deny, behind one table, so that tests can
// deny each and see the fall-back. Entries behave like the libc wrappers: -1 and errno on failure. Any thread
// may call through the table; replacing it is for tests, before the code under test runs.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace slipring::base {

struct Syscalls {
  int (*open)(const char* path, int flags, mode_t mode);
  int (*memfd_create)(const char* name, unsigned flags);
  int (*fallocate)(int fd, int mode, off_t offset, off_t bytes);
  int (*madvise)(void* address, std::size_t bytes, int advice);
  int (*pidfd_open)(pid_t pid, unsigned flags);
  int (*membarrier)(int command, unsigned flags, int cpu);
};

/// The kernel's own calls.
extern const Syscalls kKernelSyscalls;

/// The table in use.
const Syscalls& syscalls() noexcept;

/// Puts `table` in place of the one in use until the end of the scope. `table` must outlive it.
class ScopedSyscalls {
 public:
  explicit ScopedSyscalls(const Syscalls& table) noexcept;
  ~ScopedSyscalls();
  ScopedSyscalls(const ScopedSyscalls&) = delete;
  ScopedSyscalls& operator=(const ScopedSyscalls&) = delete;

 private:
  const Syscalls* previous_;
};

}  // namespace slipring::base
