// What an operation may cost once it runs: no allocation and no system call on any path while nobody has to sleep.
// After warming up, each rank puts on a seccomp filter: the kernel kills it at any system call but the one that
// ends it. Allocations are counted by replacing operator new.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "engine/store/tcp_store_server.h"
#include "slipring/communicator.h"
#include "tests/base/role_process.h"

namespace {
std::atomic<std::uint64_t> allocations{0};
}

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace slipring::engine {
namespace {

using tests::Role;
using tests::RoleArguments;
using tests::RoleProcess;

constexpr const char* kToken = "a token for tests";
constexpr int kAllocated = 40;

void all_paths(Communicator& comm, float* x, float* heap, std::size_t count) {
  comm.all_reduce(x, x, 4, DType::f32, ReduceOp::max);
  comm.all_reduce(x, x, 2000, DType::f32, ReduceOp::max);
  comm.all_reduce(x, x, count, DType::f32, ReduceOp::max);
  comm.all_reduce(heap, heap, count, DType::f32, ReduceOp::max);
  comm.broadcast(x, 2000, DType::f32, 1);
  comm.broadcast(x, count, DType::f32, 0);
  comm.barrier();
  if (comm.rank() == 0) {
    comm.send(x, 8, 1);
    comm.send(x, 300000, 1);
  } else {
    comm.recv(x, 8, 0);
    comm.recv(x, 300000, 0);
  }
}

bool forbid_system_calls() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  const sock_fprog filter{.len = 4, .filter = program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

const Role frugal("frugal", [](const RoleArguments& a) {
  constexpr std::size_t kCount = 400000;
  Communicator comm = Communicator::join({.rank = std::stoi(a[0]), .size = 2, .store = a[1], .job_token = kToken,
                                          .config = {{"wait.spin_ns", "60000000000"}, {"liveness.period_ms", "60000"},
                                                     {"all_reduce.algorithm", a[2]}}});
  std::vector<float> x(kCount, 1.0f);
  auto* heap = static_cast<float*>(comm.heap_allocate(kCount * sizeof(float)));
  std::fill(heap, heap + kCount, 1.0f);
  all_paths(comm, x.data(), heap, kCount);
  all_paths(comm, x.data(), heap, kCount);
  const std::uint64_t before = allocations;
  if (!forbid_system_calls()) return 41;
  for (int i = 0; i < 20; ++i) all_paths(comm, x.data(), heap, kCount);
  ::_exit(allocations == before ? 0 : kAllocated);
  return 0;
});

class OperationCost : public testing::TestWithParam<std::string> {};

TEST_P(OperationCost, has_no_allocation_and_no_system_call) {
  auto server = TcpStoreServer::start({.job_token = kToken});
  ASSERT_TRUE(server.is_ok());
  RoleProcess rank0("frugal", {"0", server.value()->url(), GetParam()}), rank1("frugal", {"1", server.value()->url(), GetParam()});
  for (RoleProcess* rank : {&rank0, &rank1}) {
    const int status = rank->wait();
    EXPECT_NE(status, 128 + 31) << "a system call was made";
    EXPECT_NE(status, kAllocated) << "memory was allocated";
    EXPECT_EQ(status, 0);
  }
}
INSTANTIATE_TEST_SUITE_P(paths, OperationCost, testing::Values("auto", "two_phase", "ring"));

}  // namespace
}  // namespace slipring::engine
