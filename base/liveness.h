// Whether a process that holds the other end of a segment still runs. A process is named by pid and start
// time, so that a later process that got the same pid is not taken for it. Objects are shared process-wide
// (one descriptor per peer process, however many channels ask) and immutable; any thread may call anything.
// Nothing here fails: a process that cannot be found is gone, and where pidfd_open is denied kill(pid, 0) and
// /proc answer instead.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/file_descriptor.h"

namespace slipring::base {

struct ProcessId {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  ///< clock ticks after boot (/proc/PID/stat field 22); 0 is unknown

  friend bool operator==(const ProcessId&, const ProcessId&) = default;
};

/// The calling process. Right after fork() too.
ProcessId this_process() noexcept;

/// Start of a running process or a zombie; 0 when there is none, or /proc cannot be read.
std::uint64_t process_start_ticks(pid_t pid) noexcept;

class PeerProcess {
 public:
  static std::shared_ptr<const PeerProcess> open(ProcessId id);

  /// True once the process has ended (a zombie has); stays true. Costs one poll(). Never true for the
  /// caller's own process.
  bool gone() const noexcept;
  ProcessId id() const noexcept { return id_; }

 private:
  explicit PeerProcess(ProcessId id);
  bool look() const noexcept;

  const ProcessId id_;
  FileDescriptor pidfd_;  ///< empty where pidfd_open is denied
  mutable std::atomic<bool> gone_{false};
};

}  // namespace slipring::base
