// Which CPUs and how much memory the kernel grants, in trees of files as containers show them.
#include "base/cpuset.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/cgroup.h"

namespace slipring::base {
namespace {

namespace fs = std::filesystem;

TEST(CpuSet, FollowsTheAffinityAndLeavesItAlone) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(before), &before), 0);
  const CpuSet all = usable_cpus();
  EXPECT_EQ(all.count(), CPU_COUNT(&before));
  const int last = all.cpus.back();
  std::thread narrow([last] {  // a thread of its own, so that the test program keeps its affinity
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(usable_cpus().cpus, std::vector<int>{last});
    cpu_set_t now;
    ASSERT_EQ(::sched_getaffinity(0, sizeof(now), &now), 0);
    EXPECT_TRUE(CPU_EQUAL(&one, &now));
  });
  narrow.join();
  cpu_set_t after;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(Cgroup, CpuMaxIsParsedOrNoLimit) {
  EXPECT_EQ(parse_cpu_max("150000 100000\n"), 1.5);
  EXPECT_EQ(parse_cpu_max("50000 100000"), 0.5);
  for (const char* none : {"max 100000", "", " ", "100000", "1 0", "x y", "-1 100000"}) {
    EXPECT_FALSE(parse_cpu_max(none)) << none;
  }
}

class CgroupTree : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = (fs::temp_directory_path() / "slipring-cgroup-XXXXXX").string();
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    paths_.root = folder;
    paths_.membership = folder + "/membership";
  }
  void TearDown() override { fs::remove_all(paths_.root); }
  void put(const std::string& path, const std::string& text) {
    const fs::path file = paths_.root + "/" + path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  CgroupPaths paths_;
};

TEST_F(CgroupTree, WithoutFilesThereIsNoLimit) {
  EXPECT_FALSE(cgroup_memory_left_bytes(paths_));
  EXPECT_FALSE(cgroup_cpu_quota(paths_));
  put("membership", "garbage\n:::\n0::\n");
  EXPECT_FALSE(cgroup_memory_left_bytes(paths_));
}

TEST_F(CgroupTree, TightestLimitOnTheWayUpCounts) {
  put("membership", "1:cpu,memory:/ignored\n0::/pod/container\n");
  put("pod/container/memory.max", "1000\n");
  put("pod/container/memory.current", "400\n");
  put("pod/container/memory.stat", "anon 300\ninactive_file 60\nactive_file 40\n");
  put("pod/memory.max", "max\n");
  put("pod/memory.current", "400\n");
  EXPECT_EQ(cgroup_memory_left_bytes(paths_), 700U);
  put("pod/memory.max", "500\n");
  EXPECT_EQ(cgroup_memory_left_bytes(paths_), 100U);
  put("pod/memory.max", "300\n");
  EXPECT_EQ(cgroup_memory_left_bytes(paths_), 0U);
  put("pod/container/cpu.max", "max 100000\n");
  put("pod/cpu.max", "150000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(paths_), 1.5);
}

TEST_F(CgroupTree, ContainerThatSeesItsGroupAsTheRootIsLimited) {
  put("membership", "0::/not/visible/here\n");
  put("memory.max", "4096\n");
  put("memory.current", "96\n");
  EXPECT_EQ(cgroup_memory_left_bytes(paths_), 4000U);
}

TEST_F(CgroupTree, FirstVersionIsReadToo) {
  put("membership", "5:memory:/docker/x\n0::/\n");
  put("memory/docker/x/memory.limit_in_bytes", "2000\n");
  put("memory/docker/x/memory.usage_in_bytes", "1500\n");
  put("memory/docker/x/memory.stat", "inactive_file 1\ntotal_inactive_file 500\n");
  EXPECT_EQ(cgroup_memory_left_bytes(paths_), 1000U);
}

}  // namespace
}  // namespace slipring::base
