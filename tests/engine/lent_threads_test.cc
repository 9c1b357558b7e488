// Large operations with threads that the ranks lend: the same results, bit by bit, as without.
#include <gtest/gtest.h>

#include <sched.h>

#include <atomic>
#include <cstring>

#include "slipring/communicator.h"

namespace slipring::tests {
namespace {

constexpr std::size_t kCount = 333'337;  // of a block: not a multiple of anything

// All results of a rank one after the other.
std::vector<float> results(Communicator& comm, bool heap) {
  const auto n = static_cast<std::size_t>(comm.size());
  std::vector<float> all;
  const auto get = [&](std::size_t count) {
    return heap ? static_cast<float*>(comm.heap_allocate(count * sizeof(float))) : new float[count];
  };
  float* const in = get(n * kCount);
  float* const out = get(n * kCount);
  for (std::size_t i = 0; i < n * kCount; ++i) in[i] = 1.0f / static_cast<float>(i % 1021 + 7u * static_cast<unsigned>(comm.rank()) + 1);
  const auto keep = [&](const float* from, std::size_t count) { all.insert(all.end(), from, from + count); };
  comm.all_reduce(in, out, kCount, DType::f32, ReduceOp::sum);
  keep(out, kCount);
  comm.reduce(in, out, kCount, DType::f32, ReduceOp::prod, 1);
  keep(out, comm.rank() == 1 ? kCount : 0);
  comm.reduce_scatter(in, out, kCount, DType::f32, ReduceOp::avg);
  keep(out, kCount);
  comm.all_gather(in, out, kCount, DType::f32);
  keep(out, n * kCount);
  comm.all_to_all(in, out, kCount, DType::f32);
  keep(out, n * kCount);
  const std::size_t shape[3] = {7, n * 11, 2003};
  comm.reduce_scatter(in, out, shape, 1, DType::f32, ReduceOp::sum);
  keep(out, 7 * 11 * 2003);
  std::memcpy(out, in, kCount * sizeof(float));
  comm.broadcast(out, kCount, DType::f32, 0);
  keep(out, kCount);
  comm.barrier();
  for (float* p : {in, out}) heap ? comm.heap_free(p) : delete[] p;
  return all;
}

TEST(LentThreads, change_no_bit_of_any_result) {
  for (const int size : {2, 3})
    for (const bool heap : {false, true}) {
      std::vector<std::vector<float>> alone(static_cast<std::size_t>(size));
      std::atomic<int> wrong{0};
      run_threads(size, [&](Communicator& comm) { alone[static_cast<std::size_t>(comm.rank())] = results(comm, heap); });
      run_threads(size, [&](Communicator& comm) {
        const std::vector<float> shared = results(comm, heap);
        const std::vector<float>& expected = alone[static_cast<std::size_t>(comm.rank())];
        wrong += shared.size() != expected.size() || std::memcmp(shared.data(), expected.data(), shared.size() * sizeof(float)) != 0;
      }, {.config = {{"copy.threads", "3"}}});
      EXPECT_EQ(wrong, 0) << size << " ranks, heap " << heap;
    }
}

TEST(LentThreads, are_not_started_where_the_rank_has_one_cpu) {
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  std::atomic<int> wrong{0};
  run_threads(2, [&](Communicator& comm) {
    float x = 1;
    comm.all_reduce(&x, &x, 1, DType::f32, ReduceOp::sum);
    wrong += x != 2;
  }, {.config = {{"copy.threads", "8"}}});
  EXPECT_EQ(wrong, 0);
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
}  // namespace slipring::tests
