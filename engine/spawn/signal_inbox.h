// SignalInbox: while it is open, the signals that concern a job wait at a descriptor instead of interrupting.
//
// SIGCHLD, and SIGINT, SIGTERM, SIGHUP and SIGQUIT unless they are ignored, are blocked in the thread that
// opened it; so is SIGPIPE, which it swallows. That thread owns it; the destructor restores what was before.
#pragma once

#include <csignal>

#include "base/file_descriptor.h"
#include "slipring/status.h"

namespace slipring::engine {

class SignalInbox {
 public:
  SignalInbox() = default;
  ~SignalInbox();
  SignalInbox(const SignalInbox&) = delete;
  SignalInbox& operator=(const SignalInbox&) = delete;

  Status open();
  /// Readable when a signal waits.
  int fd() const noexcept { return fd_.get(); }
  /// The next signal that has arrived, 0 if none.
  int take() const;
  /// For programs that this one starts.
  const sigset_t& mask_before() const noexcept { return mask_before_; }

 private:
  bool is_open_ = false;
  base::FileDescriptor fd_;
  sigset_t mask_before_{};
  struct sigaction child_action_before_ {};
};

}  // namespace slipring::engine
