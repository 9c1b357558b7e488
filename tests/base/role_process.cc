#include "tests/base/role_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>

namespace slipring::tests {

namespace {

constexpr int kRoleSocket = 3;
constexpr int kWaitMs = 60'000;
constexpr auto kWatchdog = std::chrono::seconds(115);

std::map<std::string, int (*)(const RoleArguments&)>& roles() {
  static std::map<std::string, int (*)(const RoleArguments&)> all;
  return all;
}

void write_all(int fd, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = ::send(fd, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return;
    done += static_cast<std::size_t>(wrote);
  }
}

std::string read_to_newline(int fd) {
  std::string line;
  for (;;) {
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, kWaitMs) <= 0) return {};
    char c = 0;
    if (::read(fd, &c, 1) <= 0) return {};
    if (c == '\n') return line;
    line.push_back(c);
  }
}

}  // namespace

Role::Role(const char* name, int (*body)(const RoleArguments&)) {
  roles()[name] = body;
}

void say(const std::string& line) {
  write_all(kRoleSocket, line + "\n");
}
std::string hear() {
  return read_to_newline(kRoleSocket);
}

RoleProcess::RoleProcess(const std::string& role, const RoleArguments& arguments) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) std::abort();
  socket_ = pair[0];
  std::vector<std::string> words{"/proc/self/exe", "--role", role};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ < 0) std::abort();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // dup2 onto itself would keep close-on-exec.
    if (pair[1] == kRoleSocket ? ::fcntl(kRoleSocket, F_SETFD, 0) != 0 : ::dup2(pair[1], kRoleSocket) < 0) {
      ::_exit(126);
    }
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(pair[1]);
}

RoleProcess::~RoleProcess() {
  if (!reaped_) {
    ::kill(pid_, SIGKILL);
    wait();
  }
  ::close(socket_);
}

void RoleProcess::write_line(const std::string& line) {
  write_all(socket_, line + "\n");
}
std::string RoleProcess::read_line() {
  return read_to_newline(socket_);
}
void RoleProcess::send_signal(int number) {
  ::kill(pid_, number);
}

int RoleProcess::wait() {
  if (!wait_without_reaping()) return -1;
  int status = 0;
  ::waitpid(pid_, &status, 0);
  reaped_ = true;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool RoleProcess::wait_without_reaping() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kWaitMs);
  while (std::chrono::steady_clock::now() < end) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == pid_) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace slipring::tests

int main(int argc, char** argv) {
  using namespace slipring::tests;
  if (argc > 2 && std::string(argv[1]) == "--role") {
    const auto role = roles().find(argv[2]);
    if (role == roles().end()) return 125;
    return role->second(RoleArguments(argv + 3, argv + argc));
  }
  std::thread([] {
    std::this_thread::sleep_for(kWatchdog);
    std::fputs("watchdog: the test did not end\n", stderr);
    std::abort();
  }).detach();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
