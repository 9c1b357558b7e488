// The plans of operations that move blocks, run by executors over channels: right blocks of any sizes, empty ones too, in the
// right places, with nothing else touched.
#include <gtest/gtest.h>

#include <cstring>

#include "collectives/algorithms/algorithm.h"
#include "tests/collectives/executor_group.h"

namespace slipring::collectives {
namespace {

/// Element i of what rank `giver` has in a block.
std::int32_t value(int giver, int block, std::size_t i) {
  return static_cast<std::int32_t>(giver * 100'000 + block * 1000 + static_cast<int>(i % 997));
}

/// What a block must end as on a rank that needs it.
std::int32_t expected(Operation operation, int ranks, int root, int block, std::size_t i) {
  switch (operation) {
    case Operation::scatter:
      return value(root, block, i);
    case Operation::all_to_all:
      return value(block / ranks, block, i);
    case Operation::reduce_scatter: {
      std::int32_t sum = 0;
      for (int r = 0; r < ranks; ++r) sum += value(r, block, i);
      return sum;
    }
    default:
      return value(block, block, i);
  }
}

/// All blocks of one rank, each in memory of its own, with a guard behind it.
struct RankBlocks {
  std::vector<std::vector<std::int32_t>> in, out;
  std::vector<BlockPlace> places;
};

constexpr std::int32_t kGuard = -77;

void run_once(const Algorithm& algorithm, int ranks, int root, int lanes, const std::vector<std::size_t>& sizes, bool in_place) {
  const Plan plan = algorithm.build({.ranks = ranks, .root = root, .lanes = lanes});
  Group group(plan, {.chunk_bytes = 64});
  std::vector<RankBlocks> all(static_cast<std::size_t>(ranks));
  std::vector<CollectiveCall> calls;
  for (int r = 0; r < ranks; ++r) {
    RankBlocks& mine = all[static_cast<std::size_t>(r)];
    for (int b = 0; b < plan.blocks(); ++b) {
      const std::size_t n = sizes[static_cast<std::size_t>(b) % sizes.size()];
      mine.in.emplace_back(n + 1, kGuard);
      mine.out.emplace_back(n + 1, kGuard);
      if (has_input(plan.operation(), ranks, root, r, b))
        for (std::size_t i = 0; i < n; ++i) mine.in.back()[i] = value(r, b, i);
    }
    for (std::size_t b = 0; b < mine.in.size(); ++b)
      mine.places.push_back({.in = mine.in[b].data(), .out = in_place ? mine.in[b].data() : mine.out[b].data(), .count = mine.in[b].size() - 1});
    calls.push_back({.dtype = DType::i32, .op = ReduceOp::sum, .blocks = mine.places});
  }
  group.run(calls);
  for (int r = 0; r < ranks; ++r)
    for (int b = 0; b < plan.blocks(); ++b) {
      const RankBlocks& mine = all[static_cast<std::size_t>(r)];
      const auto& result = (in_place ? mine.in : mine.out)[static_cast<std::size_t>(b)];
      ASSERT_EQ(result.back(), kGuard);
      if (!needs_output(plan.operation(), ranks, root, r, b)) continue;
      for (std::size_t i = 0; i + 1 < result.size(); ++i)
        ASSERT_EQ(result[i], expected(plan.operation(), ranks, root, b, i))
            << algorithm.name << ", " << ranks << " ranks, root " << root << ", rank " << r << " block " << b << " element " << i;
    }
}

class BlockAlgorithm : public testing::TestWithParam<Algorithm> {};

std::vector<Algorithm> block_algorithms() {
  std::vector<Algorithm> found;
  for (const Algorithm& a : algorithms())
    if (moves_blocks(a.operation)) found.push_back(a);
  return found;
}
INSTANTIATE_TEST_SUITE_P(, BlockAlgorithm, testing::ValuesIn(block_algorithms()), [](const auto& tested) {
  return std::string(operation_name(tested.param.operation)) + "_" + std::string(tested.param.name);
});

TEST_P(BlockAlgorithm, IsExactForEqualAndUnequalBlocksFromEveryRoot) {
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8})
    for (int root = 0; root < (is_rooted(GetParam().operation) ? ranks : 1); ++root)
      for (const bool in_place : {false, true})
        for (const int lanes : {1, 2})
          for (const auto& sizes : {std::vector<std::size_t>{0}, {1}, {17}, {3, 0, 40}, {257, 1, 0, 33}})
            ASSERT_NO_FATAL_FAILURE(run_once(GetParam(), ranks, root, lanes, sizes, in_place));
}

TEST_P(BlockAlgorithm, RefusesACallWithoutItsTable) {
  const Plan plan = GetParam().build({.ranks = 2});
  Group group(plan, {});
  std::int32_t x[4] = {};
  EXPECT_EQ(group.executors[0]->start({.in = x, .out = x, .count = 4, .dtype = DType::i32}).code(), StatusCode::invalid_argument);
}

// reduce and halving-doubling all_reduce move parts of one vector.
TEST(ExecutorReduce, IsExactOnTheRoot) {
  for (const char* name : {"ring", "binomial_tree"})
    for (const int ranks : {1, 2, 3, 5, 8})
      for (int root = 0; root < ranks; ++root)
        for (const std::size_t count : {0u, 1u, 17u, 1000u})
          for (const bool in_place : {false, true}) {
            const Plan plan = find_algorithm(Operation::reduce, name)->build({.ranks = ranks, .root = root, .lanes = 2});
            Group group(plan, {});
            std::vector<std::vector<double>> in, out;
            std::vector<CollectiveCall> calls;
            for (int r = 0; r < ranks; ++r) {
              in.emplace_back();
              for (std::size_t i = 0; i < count; ++i) in.back().push_back(value_of(r, i, ReduceOp::avg));
              out.emplace_back(count, 55.0);
            }
            for (std::size_t r = 0; r < in.size(); ++r)
              calls.push_back({.in = in[r].data(), .out = in_place ? in[r].data() : out[r].data(), .count = count, .dtype = DType::f64, .op = ReduceOp::avg});
            group.run(calls);
            const auto& result = (in_place ? in : out)[static_cast<std::size_t>(root)];
            for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(result[i], expected_value<double>(ranks, i, ReduceOp::avg));
          }
}

TEST(ExecutorAllReduce, ByHalvingAndDoublingIsExact) {
  for (int ranks = 1; ranks <= 16; ++ranks)
    for (const std::size_t count : {0u, 1u, 5u, 40u, 1003u}) {
      Group group(find_algorithm(Operation::all_reduce, "halving_doubling")->build({.ranks = ranks}), {});
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::avg}) {
        expect_all_reduce<double>(group, count, op, true);
        expect_all_reduce<std::int32_t>(group, count, op, false);
      }
    }
}

}  // namespace
}  // namespace slipring::collectives
