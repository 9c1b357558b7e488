#include "base/syscalls.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace slipring::base {

namespace {

// glibc has no wrapper for membarrier, and older ones have none for pidfd_open.
int call_open(const char* path, int flags, mode_t mode) {
  return ::open(path, flags, mode);
}
int call_memfd_create(const char* name, unsigned flags) {
  return ::memfd_create(name, flags);
}
int call_fallocate(int fd, int mode, off_t offset, off_t bytes) {
  return ::fallocate(fd, mode, offset, bytes);
}
int call_madvise(void* address, std::size_t bytes, int advice) {
  return ::madvise(address, bytes, advice);
}
int call_pidfd_open(pid_t pid, unsigned flags) {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, flags));
}
int call_membarrier(int command, unsigned flags, int cpu) {
  return static_cast<int>(::syscall(SYS_membarrier, command, flags, cpu));
}

}  // namespace

constinit const Syscalls kKernelSyscalls{
    .open = call_open,
    .memfd_create = call_memfd_create,
    .fallocate = call_fallocate,
    .madvise = call_madvise,
    .pidfd_open = call_pidfd_open,
    .membarrier = call_membarrier,
};

namespace {
constinit std::atomic<const Syscalls*> table_in_use{&kKernelSyscalls};
}

// acquire: pairs with the exchange in ScopedSyscalls, so that the fields of a test's table are seen filled.
const Syscalls& syscalls() noexcept {
  return *table_in_use.load(std::memory_order_acquire);
}

// acq_rel: pairs with the load in syscalls() (release) and with the scope that put `previous_` there
// (acquire).
ScopedSyscalls::ScopedSyscalls(const Syscalls& table) noexcept
    : previous_(table_in_use.exchange(&table, std::memory_order_acq_rel)) {}

ScopedSyscalls::~ScopedSyscalls() {
  table_in_use.store(previous_, std::memory_order_release);
}

}  // namespace slipring::base
