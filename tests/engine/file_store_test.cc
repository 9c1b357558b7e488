// The file store between processes, beside other jobs, and after jobs that were killed.
#include "engine/store/file_store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "engine/store/gather_all.h"
#include "store_places.h"

namespace slipring::engine {
namespace {

constexpr char kToken[] = "the token of this test";

std::shared_ptr<Store> open_or_fail(const std::string& directory, const std::string& token = kToken) {
  Result<std::shared_ptr<Store>> store = open_store("file://" + directory, token, patience());
  EXPECT_TRUE(store) << store.status().to_string();
  return store ? *store : nullptr;
}

// Runs `body` in a child; its value is the child's exit status.
template <class Body>
pid_t in_child(Body body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  return pid;
}

int wait_status_of(pid_t pid) {
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

// A job of which every process is killed after it has set a key.
void leave_a_killed_job(const std::string& directory, const std::string& token) {
  const int status = wait_status_of(in_child([&] {
    const auto store = open_store("file://" + directory, token, patience());
    if (!store || !store.value()->set("stale", "from a killed job")) return 1;
    raise(SIGKILL);
    return 2;
  }));
  ASSERT_TRUE(WIFSIGNALED(status));
}

TEST(FileStore, SixteenProcessesMeetAndLeaveNothing) {
  constexpr int kRanks = 16;
  const TemporaryDirectory directory;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.push_back(in_child([&directory, rank] {
      Result<std::shared_ptr<Store>> store = open_store("file://" + directory.path(), kToken, patience());
      if (!store) return 1;
      for (int i = 0; i < 10; ++i) {
        if (!(*store)->add("counter", 1)) return 2;
      }
      const auto values = gather_all(**store, "start", rank, kRanks, std::to_string(rank), patience());
      if (!values || values.value()[kRanks - 1] != std::to_string(kRanks - 1)) return 3;
      const auto count = (*store)->add("counter", 0);
      return count && count.value() == kRanks * 10 ? 0 : 4;
    }));
  }
  for (const pid_t rank : ranks) EXPECT_EQ(wait_status_of(rank), 0);
  EXPECT_TRUE(directory.is_empty());
}

TEST(FileStore, WhatAKilledJobWithTheSameTokenLeftIsNotSeen) {
  const TemporaryDirectory directory;
  for (int i = 0; i < 3; ++i) {
    leave_a_killed_job(directory.path(), kToken);
    ASSERT_FALSE(directory.is_empty());
    const auto store = open_or_fail(directory.path());
    EXPECT_FALSE(store->try_get("stale").value().has_value());
    ASSERT_TRUE(store->set("stale", "from this job"));
    EXPECT_EQ(open_or_fail(directory.path())->get("stale", patience()).value(), "from this job");
  }
  EXPECT_TRUE(directory.is_empty());
}

TEST(FileStore, WhatKilledJobsWithOtherTokensLeftIsRemoved) {
  const TemporaryDirectory directory;
  for (int i = 0; i < 5; ++i) leave_a_killed_job(directory.path(), "token " + std::to_string(i));
  { const auto store = open_or_fail(directory.path()); }
  EXPECT_TRUE(directory.is_empty());
}

TEST(FileStore, JobsSideBySideInOneDirectoryDoNotSeeEachOther) {
  const TemporaryDirectory directory;
  const auto one = open_or_fail(directory.path(), "token of job one");
  ASSERT_TRUE(one->set("key", "one"));
  const auto two = open_or_fail(directory.path(), "token of job two");
  EXPECT_FALSE(two->try_get("key").value().has_value());
  ASSERT_TRUE(two->set("key", "two"));
  EXPECT_EQ(one->get("key", patience()).value(), "one");
  EXPECT_EQ(two->get("key", patience()).value(), "two");
}

TEST(FileStore, FilesOfOtherProgramsInTheDirectoryStay) {
  const TemporaryDirectory directory;
  std::filesystem::create_directory(directory.path() + "/slipring-notes");
  std::filesystem::create_directory(directory.path() + "/slipring-0123456789abcdef0123456789abcdef");
  { const auto store = open_or_fail(directory.path()); }
  EXPECT_TRUE(std::filesystem::exists(directory.path() + "/slipring-notes"));
  EXPECT_TRUE(std::filesystem::exists(directory.path() + "/slipring-0123456789abcdef0123456789abcdef"));
}

TEST(FileStore, OpenersAndLeaversInTurnNeverLoseTheStore) {
  const TemporaryDirectory directory;
  std::vector<pid_t> children;
  for (int child = 0; child < 6; ++child) {
    children.push_back(in_child([&directory, child] {
      for (int i = 0; i < 100; ++i) {
        Result<std::shared_ptr<Store>> store = open_store("file://" + directory.path(), kToken, patience());
        const std::string key = std::to_string(child) + " " + std::to_string(i);
        if (!store || !(*store)->set(key, key)) return 1;
        const auto value = (*store)->try_get(key);
        if (!value || !value.value().has_value()) return 2;
      }
      return 0;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(wait_status_of(child), 0);
  EXPECT_TRUE(directory.is_empty());
}

TEST(FileStore, MakesItsDirectoryForTheUserAlone) {
  const TemporaryDirectory directory;
  const auto store = open_or_fail(directory.path() + "/new");
  struct stat about;
  ASSERT_EQ(stat((directory.path() + "/new").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0700u);
  for (const auto& entry : std::filesystem::directory_iterator(directory.path() + "/new")) {
    ASSERT_EQ(stat(entry.path().c_str(), &about), 0);
    EXPECT_EQ(about.st_mode & 0777, 0700u) << entry.path();
  }
}

TEST(FileStore, ADirectoryThatCannotBeIsAnErrorWithPathAndCause) {
  const TemporaryDirectory directory;
  const auto store = open_store("file://" + directory.path() + "/no/such/parent", kToken, patience());
  ASSERT_FALSE(store);
  EXPECT_NE(store.status().message().find("/no/such/parent"), std::string::npos);
  EXPECT_NE(store.status().message().find("No such file or directory"), std::string::npos);
}

TEST(FileStore, ALinkInPlaceOfItsFolderIsNotFollowed) {
  const TemporaryDirectory directory;
  const TemporaryDirectory elsewhere;
  std::string name;
  {
    const auto store = open_or_fail(directory.path());
    name = std::filesystem::directory_iterator(directory.path())->path().filename();
  }
  std::filesystem::create_directory_symlink(elsewhere.path(), directory.path() + "/" + name);
  EXPECT_FALSE(open_store("file://" + directory.path(), kToken, patience()));
  EXPECT_TRUE(elsewhere.is_empty());
}

}  // namespace
}  // namespace slipring::engine
