// A /dev/shm of 1 MiB, as containers get: clear errors, nothing left behind, no SIGBUS. Each role mounts its
// own in a private mount namespace.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/heap.h"
#include "base/segment.h"
#include "base/syscalls.h"
#include "tests/base/role_process.h"

namespace slipring::base {
namespace {

using tests::Role;
using tests::RoleArguments;
using tests::RoleProcess;
using tests::say;

constexpr std::size_t kKiB = 1024;

// "" or why not.
std::string mount_small_shm() {
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  if (::unshare(CLONE_NEWNS) != 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return std::string("unshare: ") + std::strerror(errno);
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << "0 " << uid << " 1";
    std::ofstream("/proc/self/gid_map") << "0 " << gid << " 1";
  }
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m") != 0) {
    return std::string("mount: ") + std::strerror(errno);
  }
  return {};
}

std::size_t free_kib() {
  struct statvfs fs {};
  ::statvfs("/dev/shm", &fs);
  return fs.f_bavail * fs.f_frsize / kKiB;
}

std::size_t files_in_shm() {
  std::size_t files = 0;
  DIR* const folder = ::opendir("/dev/shm");
  while (const dirent* entry = ::readdir(folder)) files += entry->d_name[0] != '.' ? 1 : 0;
  ::closedir(folder);
  return files;
}

Result<std::shared_ptr<Segment>> make(std::size_t kib, std::size_t reserve_kib = SIZE_MAX / kKiB,
                                      SegmentBacking backing = SegmentBacking::shm) {
  return Segment::create(
      {.bytes = kib * kKiB, .reserve_bytes = reserve_kib * kKiB, .backing = backing, .tag = "test"});
}

bool names_the_remedy(const Status& status) {
  if (status.code() != StatusCode::out_of_memory) return false;
  for (const char* word : {"/dev/shm", "needed", "free", "--shm-size", "sizeLimit", "segment.backing"}) {
    if (status.message().find(word) == std::string::npos) return false;
  }
  return true;
}

// Stands for a neighbour that takes the space between the check and the reservation.
void fill_shm() {
  const int fd = ::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  const std::string block(4096, 'f');
  while (::write(fd, block.data(), block.size()) > 0) {
  }
}

bool too_large_is_refused() {
  for (int i = 0; i < 100; ++i) {
    const auto segment = make(4096);
    if (segment || !names_the_remedy(segment.status()) || files_in_shm() != 0 || free_kib() != 1024)
      return false;
  }
  return true;
}

// Where unnamed files are not supported the file has its name from the start, also when there is no space for
// it.
bool too_large_is_refused_with_named_files() {
  auto table = kKernelSyscalls;
  table.open = [](const char* path, int flags, mode_t mode) {
    if ((flags & O_TMPFILE) == O_TMPFILE) {
      errno = EOPNOTSUPP;
      return -1;
    }
    return kKernelSyscalls.open(path, flags, mode);
  };
  const ScopedSyscalls scope(table);
  return too_large_is_refused();
}

bool what_fits_works_to_its_last_byte() {
  for (int i = 0; i < 100; ++i) {
    auto first = make(512);
    if (!first) return false;
    std::memset((*first)->data(), 1, (*first)->size());
    const auto second = make(600);
    if (second || !names_the_remedy(second.status())) return false;
    (*first)->seal_attach();
    if (files_in_shm() != 0) return false;
  }
  return free_kib() == 1024;
}

bool commits_stop_in_good_order() {
  auto segment = make(4096, 256);
  if (!segment) return false;
  std::size_t kib = 256;
  Status status;
  for (; status; kib += status ? 64 : 0) status = (*segment)->prefault(kib * kKiB, 64 * kKiB);
  if (!names_the_remedy(status) || kib != 960)
    return false;  // 1 MiB less the header's page, in steps of 64 KiB
  std::memset((*segment)->data(), 2, kib * kKiB);
  const std::size_t left = free_kib();
  // All or nothing: of two gaps the first fits and the second does not.
  if ((*segment)->commit(kib * kKiB, 128 * kKiB) || free_kib() != left) return false;
  return (*segment)->reserved_bytes() == kib * kKiB;
}

bool heap_is_refused() {
  auto heap = Heap::create({.max_bytes = std::size_t{64} << 20, .backing = SegmentBacking::shm});
  return !heap && names_the_remedy(heap.status()) && free_kib() == 1024;
}

// Steps grow by half of what there is; the last one of 4.5 MiB does not fit any more, one of 2 MiB does.
bool heap_takes_a_smaller_step_when_space_is_short() {
  if (::mount("tmpfs", "/dev/shm", "tmpfs", MS_REMOUNT | MS_NOSUID | MS_NODEV, "size=12m") != 0) return false;
  auto heap = Heap::create({.max_bytes = std::size_t{64} << 20, .backing = SegmentBacking::shm});
  if (!heap) return false;
  Status status;
  while (status) {
    auto buffer = (*heap)->allocate(100 * kKiB);
    status = buffer.status();
    if (buffer) std::memset(*buffer, 4, 100 * kKiB);
  }
  return names_the_remedy(status) && status.message().find("heap.max_bytes") != std::string::npos &&
         (*heap)->committed_bytes() == std::size_t{11} << 20 && (*heap)->live_buffers() > 100;
}

bool memfd_is_not_limited() {
  auto segment = make(4096, SIZE_MAX / kKiB, SegmentBacking::memfd);
  if (!segment) return false;
  std::memset((*segment)->data(), 3, (*segment)->size());
  return files_in_shm() == 0;
}

bool space_lost_after_the_check_is_an_error() {
  auto table = kKernelSyscalls;
  table.fallocate = [](int fd, int mode, off_t offset, off_t bytes) {
    fill_shm();
    return kKernelSyscalls.fallocate(fd, mode, offset, bytes);
  };
  const ScopedSyscalls scope(table);
  const auto segment = make(512);
  return !segment && names_the_remedy(segment.status()) && files_in_shm() == 0;
}

// Without fallocate, before the file is mapped: by writing zeros.
bool space_lost_without_fallocate_is_an_error() {
  auto table = kKernelSyscalls;
  table.fallocate = [](int, int, off_t, off_t) {
    fill_shm();
    errno = ENOSYS;
    return -1;
  };
  const ScopedSyscalls scope(table);
  const auto segment = make(256);
  return !segment && names_the_remedy(segment.status()) && files_in_shm() == 0;
}

// Without fallocate, once the file is mapped: by populating the mapping.
bool space_lost_before_a_commit_without_fallocate_is_an_error() {
  auto sparse = make(512, 64);
  if (!sparse) return false;
  auto table = kKernelSyscalls;
  table.fallocate = [](int, int, off_t, off_t) {
    fill_shm();
    errno = ENOSYS;
    return -1;
  };
  const ScopedSyscalls scope(table);
  const Status committed = (*sparse)->commit(0, 512 * kKiB);
  return names_the_remedy(committed) && (*sparse)->reserved_bytes() == 64 * kKiB && files_in_shm() == 1;
}

const Role small_shm("small_shm", [](const RoleArguments& arguments) {
  const std::string failure = mount_small_shm();
  if (!failure.empty()) {
    say("skip " + failure);
    return 0;
  }
  say("mounted");
  const std::string& scene = arguments[0];
  bool good = false;
  if (scene == "TooLargeIsRefusedAHundredTimes") good = too_large_is_refused();
  if (scene == "TooLargeIsRefusedWithNamedFiles") good = too_large_is_refused_with_named_files();
  if (scene == "WhatFitsWorksToItsLastByte") good = what_fits_works_to_its_last_byte();
  if (scene == "CommitsStopInGoodOrder") good = commits_stop_in_good_order();
  if (scene == "HeapIsRefused") good = heap_is_refused();
  if (scene == "HeapTakesASmallerStep") good = heap_takes_a_smaller_step_when_space_is_short();
  if (scene == "MemfdIsNotLimited") good = memfd_is_not_limited();
  if (scene == "SpaceLostAfterTheCheckIsAnError") good = space_lost_after_the_check_is_an_error();
  if (scene == "SpaceLostWithoutFallocateIsAnError") good = space_lost_without_fallocate_is_an_error();
  if (scene == "SpaceLostBeforeACommitWithoutFallocate") {
    good = space_lost_before_a_commit_without_fallocate_is_an_error();
  }
  return good ? 0 : 1;
});

class SmallShm : public ::testing::TestWithParam<const char*> {};

TEST_P(SmallShm, Holds) {
  RoleProcess role("small_shm", {GetParam()});
  const std::string first = role.read_line();
  if (first.starts_with("skip ")) GTEST_SKIP() << "no private /dev/shm: " << first.substr(5);
  EXPECT_EQ(first, "mounted");
  EXPECT_EQ(role.wait(), 0);  // 135 would be SIGBUS
}

INSTANTIATE_TEST_SUITE_P(Scenes, SmallShm,
                         ::testing::Values("TooLargeIsRefusedAHundredTimes",
                                           "TooLargeIsRefusedWithNamedFiles", "WhatFitsWorksToItsLastByte",
                                           "CommitsStopInGoodOrder", "HeapIsRefused", "HeapTakesASmallerStep",
                                           "MemfdIsNotLimited", "SpaceLostAfterTheCheckIsAnError",
                                           "SpaceLostWithoutFallocateIsAnError",
                                           "SpaceLostBeforeACommitWithoutFallocate"),
                         [](const auto& which) { return std::string(which.param); });

}  // namespace
}  // namespace slipring::base
