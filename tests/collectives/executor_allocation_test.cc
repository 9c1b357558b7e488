// Counts allocations: once an executor is made, operations allocate nothing.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <vector>

#include "collectives/algorithms/algorithm.h"
#include "collectives/executor.h"
#include "tests/collectives/fake_channels.h"

namespace {
std::size_t allocations = 0;  // the tests here have one thread
}

// Not inlined, or g++ takes malloc and free in them for a mismatched pair of new and free.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace slipring::collectives {
namespace {

TEST(ExecutorAllocations, AnOperationAllocatesNothing) {
  // Made once per process, at first use: the choice of kernels for this CPU, and the would_block status.
  reduce_kernel(DType::i32, ReduceOp::sum);
  ASSERT_EQ(Status::would_block().code(), StatusCode::would_block);
  for (const Algorithm& algorithm : algorithms()) {
    FakeNetwork network({.depth = 2});
    std::vector<std::unique_ptr<Executor>> executors;
    const Plan plan = algorithm.build({.ranks = 3, .lanes = 2});
    for (int rank = 0; rank < 3; ++rank) {
      auto made = Executor::create(plan, rank, network.of(rank), {.chunk_bytes = 64});
      ASSERT_TRUE(made.is_ok());
      executors.push_back(std::move(*made));
    }
    std::vector<std::vector<std::int32_t>> data(3, std::vector<std::int32_t>(1000, 5));
    // Each block over the same memory, in parts that nobody else uses: what they hold does not matter here.
    const std::size_t blocks = moves_blocks(algorithm.operation) ? static_cast<std::size_t>(plan.blocks()) : 0;
    std::vector<std::vector<BlockPlace>> tables(3, std::vector<BlockPlace>(blocks));
    const std::size_t before = allocations;
    std::size_t moved = 0;
    for (const std::size_t count : {1000, 7, 0, 999}) {
      for (std::size_t r = 0; r < 3; ++r) {
        for (std::size_t b = 0; b < blocks; ++b)
          tables[r][b] = {.in = data[r].data() + b * 100, .out = data[r].data() + b * 100, .count = count / 10};
        const CollectiveCall call{
            .in = data[r].data(), .out = data[r].data(), .count = count, .dtype = DType::i32, .blocks = tables[r]};
        if (!executors[r]->start(call).is_ok()) std::abort();
      }
      while (!(executors[0]->done() && executors[1]->done() && executors[2]->done())) {
        for (const auto& executor : executors) moved += executor->progress().value();
      }
    }
    EXPECT_EQ(allocations, before) << operation_name(algorithm.operation) << " " << algorithm.name;
    EXPECT_GT(moved, blocks == 0 ? 100u : 10u);
  }
  EXPECT_GT(allocations, 0u);  // the counter is alive
}

}  // namespace
}  // namespace slipring::collectives
