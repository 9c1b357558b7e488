#include "engine/spawn/signal_inbox.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>

#include "base/status.h"

namespace slipring::engine {
namespace {

constexpr std::array kForwardedSignals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};

}  // namespace

Status SignalInbox::open() {
  // If SIGCHLD were ignored, the kernel would reap the ranks and their statuses would be lost.
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &by_default, &child_action_before_);
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGCHLD);
  for (const int number : kForwardedSignals) {
    struct sigaction current {};
    // Ignored (nohup, a shell's background job) stays ignored.
    if (sigaction(number, nullptr, &current) == 0 && current.sa_handler != SIG_IGN)
      sigaddset(&wanted, number);
  }
  sigset_t blocked = wanted;
  sigaddset(&blocked, SIGPIPE);  // a reader of our output that leaves is an error of write, not our death
  pthread_sigmask(SIG_BLOCK, &blocked, &mask_before_);
  is_open_ = true;
  fd_.reset(signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  return fd_ ? Status() : base::errno_error(errno, "signalfd");
}

SignalInbox::~SignalInbox() {
  if (!is_open_) return;
  sigset_t pipe_signal;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  const timespec no_time{};
  if (sigismember(&mask_before_, SIGPIPE) == 0) sigtimedwait(&pipe_signal, nullptr, &no_time);
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  sigaction(SIGCHLD, &child_action_before_, nullptr);
}

int SignalInbox::take() const {
  signalfd_siginfo info;
  const ssize_t n = read(fd_.get(), &info, sizeof(info));
  return n == static_cast<ssize_t>(sizeof(info)) ? static_cast<int>(info.ssi_signo) : 0;
}

}  // namespace slipring::engine
