#include "base/liveness.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "base/syscalls.h"

namespace slipring::base {

namespace {

struct ProcStat {
  char state = 0;
  long threads = 0;
  std::uint64_t start_ticks = 0;
};

// The command name (field 2) may hold blanks and parentheses, so fields are counted from the last ')'.
bool read_proc_stat(pid_t pid, ProcStat& out) noexcept {
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/stat", static_cast<int>(pid));
  const FileDescriptor fd(::open(path.data(), O_RDONLY | O_CLOEXEC));
  if (!fd) return false;
  std::array<char, 1024> text{};
  const ssize_t got = ::read(fd.get(), text.data(), text.size() - 1);
  if (got <= 0) return false;
  const char* field = std::strrchr(text.data(), ')');
  if (field == nullptr || field[1] != ' ') return false;
  field += 2;
  out.state = *field;
  for (int number = 3; number < 22; ++number) {
    if (number == 20) out.threads = std::strtol(field, nullptr, 10);
    field = std::strchr(field, ' ');
    if (field == nullptr) return false;
    ++field;
  }
  out.start_ticks = std::strtoull(field, nullptr, 10);
  return true;
}

}  // namespace

ProcessId this_process() noexcept {
  const pid_t pid = ::getpid();
  return {.pid = pid, .start_ticks = process_start_ticks(pid)};
}

std::uint64_t process_start_ticks(pid_t pid) noexcept {
  ProcStat stat;
  return read_proc_stat(pid, stat) ? stat.start_ticks : 0;
}

std::shared_ptr<const PeerProcess> PeerProcess::open(ProcessId id) {
  static std::mutex mutex;
  static std::map<std::pair<pid_t, std::uint64_t>, std::weak_ptr<const PeerProcess>> known;
  const std::lock_guard lock(mutex);
  std::erase_if(known, [](const auto& entry) { return entry.second.expired(); });
  auto& slot = known[{id.pid, id.start_ticks}];
  if (auto existing = slot.lock()) return existing;
  std::shared_ptr<const PeerProcess> made(new PeerProcess(id));
  slot = made;
  return made;
}

PeerProcess::PeerProcess(ProcessId id) : id_(id) {
  if (id_.pid <= 0) {
    gone_ = true;
    return;
  }
  if (id_.pid != ::getpid()) {
    pidfd_.reset(syscalls().pidfd_open(id_.pid, 0));
    if (!pidfd_ && errno == ESRCH) gone_ = true;
  }
  // The pidfd is bound to whichever process has the pid now; only if that one started when the peer did is it
  // the peer. Asked after the open, so that an exchange in between cannot go unnoticed.
  if (id_.start_ticks != 0) {
    const std::uint64_t now_there = process_start_ticks(id_.pid);
    if (now_there != 0 && now_there != id_.start_ticks) gone_ = true;
  }
}

bool PeerProcess::gone() const noexcept {
  // relaxed: the flag only saves the system call, it publishes nothing
  if (gone_.load(std::memory_order_relaxed)) return true;
  if (!look()) return false;
  gone_.store(true, std::memory_order_relaxed);
  return true;
}

bool PeerProcess::look() const noexcept {
  if (id_.pid == ::getpid()) return false;
  if (pidfd_) {
    pollfd entry{.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&entry, 1, 0) > 0 && (entry.revents & POLLIN) != 0;
  }
  if (::kill(id_.pid, 0) != 0 && errno == ESRCH) return true;
  ProcStat stat;
  if (!read_proc_stat(id_.pid, stat)) return ::kill(id_.pid, 0) != 0 && errno == ESRCH;
  if (id_.start_ticks != 0 && stat.start_ticks != id_.start_ticks) return true;
  // A leader that left by pthread_exit is shown as a zombie while its other threads still run.
  return (stat.state == 'Z' || stat.state == 'X') && stat.threads <= 1;
}

}  // namespace slipring::base
