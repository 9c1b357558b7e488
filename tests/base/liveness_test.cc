// Whether peers are seen to be gone: children, zombies, strangers, recycled pids, with and without pidfds.
#include "base/liveness.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include "base/syscalls.h"
#include "tests/base/role_process.h"

namespace slipring::base {
namespace {

using tests::hear;
using tests::Role;
using tests::RoleArguments;
using tests::RoleProcess;
using tests::say;

bool gone_within_a_minute(const PeerProcess& peer) {
  for (int i = 0; i < 60'000; ++i) {
    if (peer.gone()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

const Role sleeper("sleeper", [](const RoleArguments&) {
  say("up");
  hear();
  return 0;
});

// Starts a sleeper of its own, which is no child of the test.
const Role parent_of_sleeper("parent_of_sleeper", [](const RoleArguments&) {
  RoleProcess child("sleeper");
  if (child.read_line() != "up") return 1;
  say(std::to_string(child.pid()));
  if (hear() != "kill it") return 1;
  child.send_signal(SIGKILL);
  child.wait();
  say("reaped");
  hear();
  return 0;
});

const Role leaderless("leaderless", [](const RoleArguments&) {
  std::thread([] {
    say("up");
    hear();
    ::_exit(0);
  }).detach();
  ::pthread_exit(nullptr);
  return 0;
});

class Liveness : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    table_ = kKernelSyscalls;
    if (GetParam()) {
      table_.pidfd_open = [](pid_t, unsigned) {
        errno = ENOSYS;
        return -1;
      };
    }
  }
  ProcessId id_of(pid_t pid) { return {.pid = pid, .start_ticks = process_start_ticks(pid)}; }
  Syscalls table_{};
  ScopedSyscalls scope_{table_};
};

INSTANTIATE_TEST_SUITE_P(Kernels, Liveness, ::testing::Values(false, true),
                         [](const auto& which) { return which.param ? "WithoutPidfd" : "WithPidfd"; });

TEST_P(Liveness, OwnProcessIsNeverGone) {
  const ProcessId self = this_process();
  EXPECT_EQ(self.pid, ::getpid());
  EXPECT_NE(self.start_ticks, 0U);
  EXPECT_FALSE(PeerProcess::open(self)->gone());
}

TEST_P(Liveness, ChildIsGoneAsAZombieAlready) {
  RoleProcess child("sleeper");
  ASSERT_EQ(child.read_line(), "up");
  const auto peer = PeerProcess::open(id_of(child.pid()));
  EXPECT_FALSE(peer->gone());
  child.send_signal(SIGSTOP);
  EXPECT_FALSE(peer->gone()) << "stopped is not gone";
  child.send_signal(SIGKILL);
  ASSERT_TRUE(child.wait_without_reaping());
  EXPECT_TRUE(gone_within_a_minute(*peer));
  child.wait();
  EXPECT_TRUE(peer->gone());
}

TEST_P(Liveness, ZombieIsGoneFromTheStart) {
  RoleProcess child("sleeper");
  ASSERT_EQ(child.read_line(), "up");
  child.send_signal(SIGKILL);
  ASSERT_TRUE(child.wait_without_reaping());
  EXPECT_TRUE(PeerProcess::open(id_of(child.pid()))->gone());
}

TEST_P(Liveness, StrangerIsSeenToEnd) {
  RoleProcess parent("parent_of_sleeper");
  const pid_t pid = std::stoi(parent.read_line());
  const auto peer = PeerProcess::open(id_of(pid));
  EXPECT_FALSE(peer->gone());
  parent.write_line("kill it");
  EXPECT_TRUE(gone_within_a_minute(*peer));
  ASSERT_EQ(parent.read_line(), "reaped");
  EXPECT_TRUE(peer->gone());
}

TEST_P(Liveness, ProcessThatHasEndedBeforeIsGone) {
  RoleProcess child("sleeper");
  const ProcessId id = id_of(child.pid());
  child.send_signal(SIGKILL);
  child.wait();
  EXPECT_TRUE(PeerProcess::open(id)->gone());
}

TEST_P(Liveness, AnotherProcessUnderTheSamePidIsNotThePeer) {
  RoleProcess child("sleeper");
  ASSERT_EQ(child.read_line(), "up");
  ProcessId earlier = id_of(child.pid());
  earlier.start_ticks -= 1;
  EXPECT_TRUE(PeerProcess::open(earlier)->gone());
  EXPECT_FALSE(PeerProcess::open(id_of(child.pid()))->gone());
  ProcessId self = this_process();
  self.start_ticks -= 1;
  EXPECT_TRUE(PeerProcess::open(self)->gone()) << "an earlier process that had this one's pid";
}

TEST_P(Liveness, NonsensePidsAreGone) {
  for (const pid_t pid : {0, -1, 2'147'483'647}) EXPECT_TRUE(PeerProcess::open({.pid = pid})->gone()) << pid;
}

TEST_P(Liveness, ProcessWhoseFirstThreadLeftStillRuns) {
  RoleProcess child("leaderless");
  ASSERT_EQ(child.read_line(), "up");
  const auto peer = PeerProcess::open(id_of(child.pid()));
  for (int i = 0; i < 50; ++i) {
    ASSERT_FALSE(peer->gone());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  child.write_line("");
  EXPECT_TRUE(gone_within_a_minute(*peer));
}

TEST(PeerProcess, ThousandsForOnePeerShareOneDescriptor) {
  RoleProcess child("sleeper");
  ASSERT_EQ(child.read_line(), "up");
  const ProcessId id{.pid = child.pid(), .start_ticks = process_start_ticks(child.pid())};
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit small{64, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
  std::vector<std::shared_ptr<const PeerProcess>> held;
  for (int i = 0; i < 5000; ++i) held.push_back(PeerProcess::open(id));
  const int fd = ::dup(0);
  EXPECT_GE(fd, 0);
  ::close(fd);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(held.front(), held.back());
  child.send_signal(SIGKILL);
  child.wait();
  EXPECT_TRUE(held.back()->gone());
}

TEST(PeerProcess, IsWatchedWithoutADescriptorWhenNoneIsLeft) {
  RoleProcess child("sleeper");
  ASSERT_EQ(child.read_line(), "up");
  const ProcessId id{.pid = child.pid(), .start_ticks = process_start_ticks(child.pid())};
  auto table = kKernelSyscalls;
  table.pidfd_open = [](pid_t, unsigned) {
    errno = EMFILE;
    return -1;
  };
  const ScopedSyscalls scope(table);
  const auto peer = PeerProcess::open(id);
  EXPECT_FALSE(peer->gone());
  child.send_signal(SIGKILL);
  child.wait();
  EXPECT_TRUE(peer->gone());
}

}  // namespace
}  // namespace slipring::base
