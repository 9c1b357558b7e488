// Segments between real processes: attach, refuse, survive kills, reserve, fall back.
#include "base/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "base/file_descriptor.h"
#include "base/syscalls.h"
#include "tests/base/role_process.h"

namespace slipring::base {
namespace {

using tests::hear;
using tests::Role;
using tests::RoleArguments;
using tests::RoleProcess;
using tests::say;

const Deadline kNow = Deadline::after_ms(0);

SegmentBacking backing_named(const std::string& name) {
  return name == "shm" ? SegmentBacking::shm : SegmentBacking::memfd;
}

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

std::string shm_path_of(const std::string& address) {
  auto parsed = SegmentAddress::parse(address);
  return parsed ? parsed->shm_path() : std::string();
}

std::uint64_t meminfo_bytes(const std::string& wanted) {
  std::ifstream meminfo("/proc/meminfo");
  std::string key;
  std::string rest;
  std::uint64_t number = 0;
  while (meminfo >> key >> number && std::getline(meminfo, rest)) {
    if (key == wanted + ":") return rest.find("kB") == std::string::npos ? number : number * 1024;
  }
  return 0;
}

// Attaches to every address it is told, keeps it, and answers with the first byte or the error.
const Role attacher("attacher", [](const RoleArguments& arguments) {
  const rlimit files{256, 256};
  ::setrlimit(RLIMIT_NOFILE, &files);
  const auto wait_ms = arguments.empty() ? 0 : std::stoll(arguments[0]);
  std::vector<std::shared_ptr<Segment>> held;
  for (std::string address = hear(); !address.empty(); address = hear()) {
    auto segment = Segment::attach(address, Deadline::after_ms(wait_ms));
    if (!segment) {
      say(segment.status().to_string());
      continue;
    }
    const char seen = static_cast<char>((*segment)->data()[0]);
    (*segment)->data()[(*segment)->size() - 1] = std::byte{'z'};  // before the answer: the test looks for it then
    say(std::string("ok ") + seen);
    held.push_back(std::move(*segment));
  }
  return 0;
});

// arguments: backing, bytes, and at what point to stop and wait for SIGKILL.
const Role creator("creator", [](const RoleArguments& arguments) {
  auto segment = Segment::create({.bytes = std::stoull(arguments[1]),
                                  .backing = backing_named(arguments[0]),
                                  .tag = "of the creator role"});
  if (!segment) {
    say(segment.status().to_string());
    return 1;
  }
  (*segment)->data()[0] = std::byte{'c'};
  if (arguments[2] == "sealed") (*segment)->seal_attach();
  say((*segment)->address());
  if (arguments[2] == "writing") {
    for (;;) std::memset((*segment)->data(), 'c', (*segment)->size());
  }
  hear();
  return 0;
});

class SegmentOfBacking : public ::testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<Segment> make(std::size_t bytes, std::size_t reserve = SIZE_MAX) {
    auto segment = Segment::create(
        {.bytes = bytes, .reserve_bytes = reserve, .backing = backing_named(GetParam()), .tag = "test"});
    EXPECT_TRUE(segment) << segment.status().to_string();
    return segment ? *segment : nullptr;
  }
};

INSTANTIATE_TEST_SUITE_P(Backings, SegmentOfBacking, ::testing::Values("memfd", "shm"),
                         [](const auto& which) { return std::string(which.param); });

TEST_P(SegmentOfBacking, PeerProcessSeesAndChangesTheSameBytes) {
  for (const std::size_t bytes : {1UL, 4095UL, 4096UL, 4097UL, 1UL << 20}) {
    auto segment = make(bytes);
    ASSERT_NE(segment, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(segment->data()) % 4096, 0U);
    segment->data()[0] = std::byte{'a'};
    RoleProcess peer("attacher");
    peer.write_line(segment->address());
    EXPECT_EQ(peer.read_line(), "ok a");
    peer.write_line("");
    EXPECT_EQ(peer.wait(), 0);
    EXPECT_EQ(segment->data()[bytes - 1], std::byte{'z'});
  }
}

TEST_P(SegmentOfBacking, IsFreshAndZero) {
  auto segment = make(100'000);
  ASSERT_NE(segment, nullptr);
  for (std::size_t i = 0; i < segment->size(); ++i) ASSERT_EQ(segment->data()[i], std::byte{0});
}

TEST_P(SegmentOfBacking, AttachInItsOwnProcessGivesTheSameMapping) {
  auto segment = make(4096);
  ASSERT_NE(segment, nullptr);
  auto again = Segment::attach(segment->address(), kNow);
  ASSERT_TRUE(again) << again.status().to_string();
  EXPECT_EQ(again->get(), segment.get());
  segment->seal_attach();
  EXPECT_TRUE(Segment::attach(segment->address(), kNow));
}

TEST_P(SegmentOfBacking, SealLeavesNoNameAndNoDescriptorAndRefusesLatecomers) {
  auto segment = make(4096);
  ASSERT_NE(segment, nullptr);
  const auto address = SegmentAddress::parse(segment->address());
  ASSERT_TRUE(address);
  const std::string own_fd = "/proc/self/fd/" + std::to_string(address.value().fd);
  EXPECT_EQ(exists(address.value().shm_path()), GetParam() == std::string("shm"));
  EXPECT_TRUE(exists(own_fd));
  segment->seal_attach();
  segment->seal_attach();
  EXPECT_FALSE(exists(address.value().shm_path()));
  EXPECT_FALSE(exists(own_fd));
  RoleProcess peer("attacher", {"50"});
  peer.write_line(segment->address());
  EXPECT_TRUE(peer.read_line().starts_with("unavailable: ranks do not share memory"));
  segment->data()[0] = std::byte{'x'};  // still mapped
}

TEST_P(SegmentOfBacking, GoesWithItsLastUser) {
  auto segment = make(4096);
  ASSERT_NE(segment, nullptr);
  const std::string address = segment->address();
  segment.reset();
  EXPECT_FALSE(exists(shm_path_of(address)));
  EXPECT_EQ(Segment::attach(address, kNow).status().code(), StatusCode::unavailable);
}

TEST_P(SegmentOfBacking, KilledCreatorLeavesNothingAtAnyPoint) {
  const std::uint64_t shared_before = meminfo_bytes("Shmem");
  for (int round = 0; round < 4; ++round) {
    for (const char* point : {"created", "sealed", "writing", "attached"}) {
      RoleProcess victim("creator", {GetParam(), std::to_string(64 << 20), point});
      const std::string address = victim.read_line();
      std::shared_ptr<Segment> mine;
      if (point == std::string("attached")) {
        auto attached = Segment::attach(address, Deadline::after_ms(5000));
        ASSERT_TRUE(attached) << attached.status().to_string();
        mine = *attached;
      }
      victim.send_signal(SIGKILL);
      ASSERT_EQ(victim.wait(), 128 + SIGKILL);
      if (mine) {  // what is mapped stays until it is let go
        EXPECT_EQ(mine->data()[0], std::byte{'c'});
      }
      // A name that was still there is removed by the next start.
      ASSERT_NE(make(4096), nullptr);
      EXPECT_FALSE(exists(shm_path_of(address))) << point;
    }
  }
  // 1 GiB has been reserved in all; a leak of it would show beside whatever else runs on the machine.
  EXPECT_LT(meminfo_bytes("Shmem"), shared_before + (std::uint64_t{512} << 20));
}

TEST_P(SegmentOfBacking, FiveThousandAtTwoHundredFiftySixOpenFiles) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit small{256, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
  RoleProcess peer("attacher");
  std::vector<std::shared_ptr<Segment>> held;
  for (int i = 0; i < 5000; ++i) {
    auto segment = make(4096);
    if (segment == nullptr) break;
    segment->data()[0] = std::byte{'k'};
    peer.write_line(segment->address());
    const std::string answer = peer.read_line();
    EXPECT_EQ(answer, "ok k");
    if (answer != "ok k") break;
    segment->seal_attach();
    held.push_back(std::move(segment));
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(held.size(), 5000U);
  for (const auto& segment : held) ASSERT_EQ(segment->data()[4095], std::byte{'z'});
}

TEST_P(SegmentOfBacking, SparseSegmentReservesWhatItCommits) {
  constexpr std::size_t kMiB = 1 << 20;
  const std::size_t beyond_memory = 2 * (meminfo_bytes("MemTotal") + meminfo_bytes("SwapTotal"));
  auto segment = make(beyond_memory, kMiB);
  ASSERT_NE(segment, nullptr);
  const auto address = SegmentAddress::parse(segment->address());
  const std::string file = "/proc/self/fd/" + std::to_string(address.value().fd);
  const auto file_bytes = [&] {
    struct stat info {};
    EXPECT_EQ(::stat(file.c_str(), &info), 0);
    return static_cast<std::size_t>(info.st_blocks) * 512;
  };
  EXPECT_EQ(segment->reserved_bytes(), kMiB);
  EXPECT_EQ(file_bytes(), kMiB + 4096);
  segment->seal_attach();  // keeps the descriptor: there is more to reserve
  ASSERT_TRUE(segment->commit(4 * kMiB, kMiB));
  EXPECT_EQ(segment->reserved_bytes(), kMiB);
  EXPECT_EQ(file_bytes(), 2 * kMiB + 4096);
  std::memset(segment->data() + 4 * kMiB, 7, kMiB);
  for (int twice = 0; twice < 2; ++twice) {
    ASSERT_TRUE(segment->commit(kMiB - 1, 5 * kMiB));
    EXPECT_EQ(segment->reserved_bytes(), 6 * kMiB);
    EXPECT_EQ(file_bytes(), 6 * kMiB + 4096);
  }
  EXPECT_EQ(segment->data()[4 * kMiB], std::byte{7});
  EXPECT_EQ(segment->data()[5 * kMiB - 1], std::byte{7});
  const Status beyond = segment->commit(segment->size() - 1, 2);
  EXPECT_EQ(beyond.code(), StatusCode::invalid_argument);
  const Status too_much = segment->commit(0, beyond_memory);
  EXPECT_EQ(too_much.code(), StatusCode::out_of_memory);
  EXPECT_NE(too_much.message().find("needed"), std::string::npos) << too_much.message();
  EXPECT_NE(too_much.message().find("free"), std::string::npos) << too_much.message();
  EXPECT_EQ(segment->reserved_bytes(), 6 * kMiB);
}

bool resident(const std::byte* begin, std::size_t bytes) {
  std::vector<unsigned char> pages(bytes / 4096);
  // const_cast: mincore only reads
  if (::mincore(const_cast<std::byte*>(begin), bytes, pages.data()) != 0) return false;
  for (const unsigned char page : pages) {
    if ((page & 1) == 0) return false;
  }
  return true;
}

TEST_P(SegmentOfBacking, PrefaultMapsPagesAndKeepsTheirContents) {
  const FileDescriptor zeros(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  auto denied = kKernelSyscalls;
  denied.madvise = [](void*, std::size_t, int) {
    errno = EINVAL;
    return -1;
  };
  for (const auto* table : {&kKernelSyscalls, static_cast<const Syscalls*>(&denied)}) {
    const ScopedSyscalls scope(*table);
    auto segment = make(64 * 4096, 4096);
    ASSERT_NE(segment, nullptr);
    segment->data()[0] = std::byte{5};
    rusage before{};
    ASSERT_TRUE(segment->prefault(1, 64 * 4096 - 1));
    EXPECT_EQ(segment->reserved_bytes(), 64 * 4096U);
    EXPECT_TRUE(resident(segment->data(), 64 * 4096));
    ::getrusage(RUSAGE_SELF, &before);
    // Stored to by the kernel, past the sanitizers, whose own bookkeeping would fault too.
    for (std::size_t page = 1; page < 64; ++page) {
      ASSERT_EQ(::syscall(SYS_read, zeros.get(), segment->data() + page * 4096, 1), 1);
    }
    rusage after{};
    ::getrusage(RUSAGE_SELF, &after);
    EXPECT_LT(after.ru_minflt - before.ru_minflt, 32) << "pages faulted after prefault";
    EXPECT_EQ(segment->data()[0], std::byte{5});
  }
}

TEST(Segment, ReservesEvenWhileATimerInterruptsEveryCall) {
  struct sigaction action {};
  struct sigaction old {};
  action.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGALRM, &action, &old), 0);
  const itimerval every{{0, 5000}, {0, 5000}};
  const itimerval off{};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &every, nullptr), 0);
  auto segment = Segment::create({.bytes = std::size_t{256} << 20, .tag = "interrupted"});
  ASSERT_EQ(::setitimer(ITIMER_REAL, &off, nullptr), 0);
  ASSERT_EQ(::sigaction(SIGALRM, &old, nullptr), 0);
  ASSERT_TRUE(segment) << segment.status().to_string();
  EXPECT_EQ((*segment)->reserved_bytes(), std::size_t{256} << 20);
}

TEST(Segment, ReservesAlthoughSignalsUndoCalls) {
  auto table = kKernelSyscalls;
  table.fallocate = [](int fd, int mode, off_t offset, off_t bytes) {
    static int calls = 0;
    if (++calls % 3 == 0) return kKernelSyscalls.fallocate(fd, mode, offset, bytes);
    errno = EINTR;
    return -1;
  };
  const ScopedSyscalls scope(table);
  auto segment = Segment::create({.bytes = std::size_t{32} << 20, .tag = "interrupted"});
  ASSERT_TRUE(segment) << segment.status().to_string();
  EXPECT_EQ((*segment)->reserved_bytes(), std::size_t{32} << 20);
}

TEST(Segment, RefusesSizesThatCannotBe) {
  for (const std::size_t bytes : {std::size_t{0}, kMaxSegmentBytes + 1, SIZE_MAX}) {
    EXPECT_EQ(Segment::create({.bytes = bytes}).status().code(), StatusCode::invalid_argument);
  }
  const auto huge = Segment::create({.bytes = std::size_t{1} << 45, .tag = "huge"});
  EXPECT_EQ(huge.status().code(), StatusCode::out_of_memory);
  EXPECT_NE(huge.status().message().find("segment huge"), std::string::npos);
}

TEST(Segment, DeniedMemfdFallsBackToShmWithANote) {
  auto table = kKernelSyscalls;
  table.memfd_create = [](const char*, unsigned) {
    errno = EPERM;
    return -1;
  };
  const ScopedSyscalls scope(table);
  auto segment = Segment::create({.bytes = 4096, .tag = "fallen back"});
  ASSERT_TRUE(segment) << segment.status().to_string();
  EXPECT_NE((*segment)->note().find("memfd_create"), std::string::npos) << (*segment)->note();
  RoleProcess peer("attacher");
  (*segment)->data()[0] = std::byte{'f'};
  peer.write_line((*segment)->address());
  EXPECT_EQ(peer.read_line(), "ok f");
}

TEST(Segment, DeniedUnnamedFileIsMadeWithItsName) {
  auto table = kKernelSyscalls;
  table.open = [](const char* path, int flags, mode_t mode) {
    if ((flags & O_TMPFILE) == O_TMPFILE) {
      errno = EOPNOTSUPP;
      return -1;
    }
    return kKernelSyscalls.open(path, flags, mode);
  };
  const ScopedSyscalls scope(table);
  auto segment = Segment::create({.bytes = 4096, .backing = SegmentBacking::shm, .tag = "named"});
  ASSERT_TRUE(segment) << segment.status().to_string();
  EXPECT_TRUE(exists(shm_path_of((*segment)->address())));
  RoleProcess peer("attacher");
  (*segment)->data()[0] = std::byte{'n'};
  peer.write_line((*segment)->address());
  EXPECT_EQ(peer.read_line(), "ok n");
  (*segment)->seal_attach();
  EXPECT_FALSE(exists(shm_path_of((*segment)->address())));
}

TEST_P(SegmentOfBacking, DeniedFallocateStillReserves) {
  auto table = kKernelSyscalls;
  table.fallocate = [](int, int, off_t, off_t) {
    errno = ENOSYS;
    return -1;
  };
  auto no_populate = table;
  no_populate.madvise = [](void*, std::size_t, int) {
    errno = EPERM;
    return -1;
  };
  for (const auto* denied : {&table, &no_populate}) {
    const ScopedSyscalls scope(*denied);
    auto segment = make(2 << 20, 1 << 20);
    ASSERT_NE(segment, nullptr);
    ASSERT_TRUE(segment->commit(0, 2 << 20));
    const auto address = SegmentAddress::parse(segment->address());
    struct stat info {};
    ASSERT_EQ(::stat(("/proc/self/fd/" + std::to_string(address.value().fd)).c_str(), &info), 0);
    EXPECT_EQ(info.st_blocks * 512, (2 << 20) + 4096);
  }
}

TEST(Segment, HugePagesAreUsedOrTheReasonIsGiven) {
  const bool pool = meminfo_bytes("HugePages_Free") >= 4;
  auto wanted = Segment::create({.bytes = 1 << 20, .huge_pages = HugePages::attempt, .tag = "huge"});
  ASSERT_TRUE(wanted) << wanted.status().to_string();
  (*wanted)->data()[0] = std::byte{'h'};
  EXPECT_EQ((*wanted)->note().empty(), pool) << (*wanted)->note();
  RoleProcess peer("attacher");
  peer.write_line((*wanted)->address());
  EXPECT_EQ(peer.read_line(), "ok h");
  auto required = Segment::create({.bytes = 1 << 20, .huge_pages = HugePages::require, .tag = "huge"});
  if (pool) {
    ASSERT_TRUE(required) << required.status().to_string();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*required)->data()) % (2 << 20), 0U);
  } else {
    EXPECT_EQ(required.status().code(), StatusCode::out_of_memory);
    EXPECT_NE(required.status().message().find("vm.nr_hugepages"), std::string::npos);
  }
}

TEST(Segment, KernelWithoutHugePagesFallsBack) {
  auto table = kKernelSyscalls;
  table.memfd_create = [](const char* name, unsigned flags) {
    if ((flags & MFD_HUGETLB) != 0) {
      errno = EINVAL;
      return -1;
    }
    return kKernelSyscalls.memfd_create(name, flags);
  };
  const ScopedSyscalls scope(table);
  auto segment = Segment::create({.bytes = 4096, .huge_pages = HugePages::attempt, .tag = "t"});
  ASSERT_TRUE(segment) << segment.status().to_string();
  EXPECT_NE((*segment)->note().find("no huge pages"), std::string::npos) << (*segment)->note();
  EXPECT_FALSE(Segment::create({.bytes = 4096, .huge_pages = HugePages::require}));
  const auto shm =
      Segment::create({.bytes = 4096, .backing = SegmentBacking::shm, .huge_pages = HugePages::require});
  EXPECT_EQ(shm.status().code(), StatusCode::invalid_argument);
}

TEST(Segment, SweepSparesFilesInUseAndFilesOfOthers) {
  const std::string foreign = "/dev/shm/slipring-of-somebody-else";
  const int fd = ::open(foreign.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  ::close(fd);
  RoleProcess neighbour("creator", {"shm", "4096", "created"});
  const std::string in_use = shm_path_of(neighbour.read_line());
  ASSERT_TRUE(exists(in_use));
  auto mine = Segment::create({.bytes = 4096, .backing = SegmentBacking::shm, .tag = "mine"});
  ASSERT_TRUE(mine) << mine.status().to_string();
  auto second = Segment::create({.bytes = 4096, .backing = SegmentBacking::shm, .tag = "second"});
  EXPECT_TRUE(exists(in_use));
  EXPECT_TRUE(exists(foreign));
  EXPECT_TRUE(exists(shm_path_of((*mine)->address())));
  ::unlink(foreign.c_str());
}

TEST(Segment, ForkedChildLeavesItsParentsNameAlone) {
  auto segment = Segment::create({.bytes = 4096, .backing = SegmentBacking::shm, .tag = "parent"});
  ASSERT_TRUE(segment) << segment.status().to_string();
  const std::string path = shm_path_of((*segment)->address());
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool refused = !(*segment)->commit(0, 1);
    (*segment).reset();
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(exists(path));
}

const Role thread_attacher("thread_attacher", [](const RoleArguments& arguments) {
  std::vector<std::shared_ptr<Segment>> found(8);
  std::vector<std::thread> threads;
  for (auto& slot : found) {
    threads.emplace_back([&slot, &arguments] {
      auto segment = Segment::attach(arguments[0], Deadline::after_ms(1000));
      if (segment) slot = *segment;
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& slot : found) {
    if (slot == nullptr || slot != found[0]) return 1;
  }
  return 0;
});

TEST_P(SegmentOfBacking, ThreadsThatAttachAtOnceShareOneMapping) {
  auto segment = make(4096);
  ASSERT_NE(segment, nullptr);
  for (int round = 0; round < 20; ++round) {
    RoleProcess peer("thread_attacher", {segment->address()});
    ASSERT_EQ(peer.wait(), 0);
  }
}

}  // namespace
}  // namespace slipring::base
