// The executor on channels in memory: every algorithm, every small count, all types and operators, in place
// and out of place, under random interleavings in one thread (seeds are printed) and as threads.
#include "collectives/executor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "collectives/algorithms/algorithm.h"
#include "tests/collectives/executor_group.h"

namespace slipring::collectives {
namespace {

constexpr DType kTypes[] = {DType::f32, DType::f64, DType::i32, DType::i64, DType::i8,
                            DType::u8,  DType::u32, DType::u64, DType::f16, DType::bf16};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg};

template <class F>
void with_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(float{});
    case DType::f64:
      return f(double{});
    case DType::i32:
      return f(std::int32_t{});
    case DType::i64:
      return f(std::int64_t{});
    case DType::i8:
      return f(std::int8_t{});
    case DType::u8:
      return f(std::uint8_t{});
    case DType::u32:
      return f(std::uint32_t{});
    case DType::u64:
      return f(std::uint64_t{});
    case DType::f16:
      return f(float16{});
    case DType::bf16:
      return f(bfloat16{});
    default:
      FAIL() << "no operators on " << dtype_name(dtype);
  }
}

std::string describe(const Plan& plan, std::size_t count, DType dtype, ReduceOp op, bool in_place) {
  return plan.algorithm() + " ranks " + std::to_string(plan.ranks()) + " lanes " +
         std::to_string(plan.lanes()) + " count " + std::to_string(count) + " " +
         std::string(dtype_name(dtype)) + " " + std::string(reduce_op_name(op)) +
         (in_place ? " in place" : " out of place");
}

/// Every count, and every type and operator in both placements: all pairs in small groups; in large ones each
/// count meets a third of the combinations, another third for the next count.
void expect_every_type_and_op(const Plan& plan, const std::vector<std::size_t>& counts,
                              const GroupOptions& options) {
  Group group(plan, options);
  int combination = 0;
  for (const std::size_t count : counts) {
    for (const DType dtype : kTypes) {
      for (const ReduceOp op : kOps) {
        for (const bool in_place : {true, false}) {
          if (combination++ % 3 != 0 && plan.ranks() > 4) continue;
          SCOPED_TRACE(describe(plan, count, dtype, op, in_place));
          with_type(dtype, [&](auto zero) { expect_all_reduce<decltype(zero)>(group, count, op, in_place); });
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

std::vector<Plan> all_reduce_plans(int ranks) {
  std::vector<Plan> plans;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.operation != Operation::all_reduce) continue;
    for (const int lanes : {1, 2}) plans.push_back(algorithm.build({.ranks = ranks, .lanes = lanes}));
  }
  return plans;
}

// Sanitizers watch one thread here, many times slower: a sample of the counts and groups does.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kCountStep = 3;
constexpr int kRankStep = 4;
#else
constexpr std::size_t kCountStep = 1;
constexpr int kRankStep = 1;
#endif

TEST(ExecutorAllReduce, IsExactForEveryCountUpTo40AndGroupsUpTo16) {
  std::vector<std::size_t> counts;
  for (std::size_t count = 0; count <= 40; count += kCountStep) counts.push_back(count);
  for (int ranks = 1; ranks <= 16; ranks += ranks < 5 ? 1 : kRankStep) {
    for (const Plan& plan : all_reduce_plans(ranks)) {
      expect_every_type_and_op(plan, counts, {.network = {.depth = ranks % 2 == 0 ? 1 : 3}});
      ASSERT_FALSE(HasFatalFailure());
    }
  }
}

TEST(ExecutorAllReduce, IsExactAroundBlockChunkAndWindowBoundaries) {
  for (const int ranks : {2, 3, 4, 7}) {
    for (const Plan& plan : all_reduce_plans(ranks)) {
      std::vector<std::size_t> counts;
      const auto lane_blocks = static_cast<std::size_t>(plan.blocks() * plan.lanes());
      for (const std::size_t chunks : {1, 2, 3, 7}) {
        for (const std::size_t chunk_elements : {2, 4}) {
          const std::size_t edge = lane_blocks * chunks * chunk_elements;
          for (const std::size_t count : {edge - 1, edge, edge + 1}) counts.push_back(count);
        }
      }
      expect_every_type_and_op(plan, counts, {.window = 3, .network = {.depth = 2}});
      ASSERT_FALSE(HasFatalFailure());
    }
  }
}

TEST(ExecutorAllReduce, IsExactWhenChannelsRefuseAtRandom) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    for (const int ranks : {2, 3, 5, 8}) {
      for (const Plan& plan : all_reduce_plans(ranks)) {
        Group group(plan,
                    {.window = static_cast<int>(1 + seed % 5),
                     .network = {.depth = static_cast<int>(1 + seed % 4), .refusal = 0.4, .seed = seed}});
        for (const bool in_place : {true, false}) {
          expect_all_reduce<float>(group, 61, ReduceOp::avg, in_place);
          expect_all_reduce<std::int64_t>(group, 100, ReduceOp::sum, in_place);
          ASSERT_FALSE(HasFatalFailure());
        }
      }
    }
  }
}

/// Sums whose rounding shows the order: runs with any chunking must give one result, on all ranks.
TEST(ExecutorAllReduce, BitsDoNotDependOnRankChunkWindowDepthOrTiming) {
  constexpr std::size_t kCount = 157;
  for (const int ranks : {2, 3, 5, 6, 8, 11}) {
    std::minstd_rand random(static_cast<unsigned>(ranks));
    std::vector<std::vector<float>> inputs(static_cast<std::size_t>(ranks), std::vector<float>(kCount));
    for (auto& input : inputs) {
      for (float& x : input)
        x = std::ldexp(static_cast<float>(random() % 20001) - 10000.0f, static_cast<int>(random() % 20));
    }
    for (const Plan& plan : all_reduce_plans(ranks)) {
      std::vector<float> first;
      for (const std::size_t chunk_bytes : {8, 12, 20, 64, 4096}) {
        for (const int window : {1, 4}) {
          Group group(plan,
                      {.chunk_bytes = chunk_bytes,
                       .window = window,
                       .network = {.depth = window, .max_bytes = 4096, .refusal = 0.2, .seed = chunk_bytes}});
          std::vector<std::vector<float>> outputs = inputs;
          std::vector<CollectiveCall> calls;
          for (auto& output : outputs)
            calls.push_back({.in = output.data(), .out = output.data(), .count = kCount});
          group.run(calls);
          if (first.empty()) first = outputs[0];
          for (const auto& output : outputs) {
            ASSERT_EQ(std::memcmp(output.data(), first.data(), kCount * sizeof(float)), 0)
                << plan.algorithm() << " ranks " << ranks << " chunk_bytes " << chunk_bytes;
          }
        }
      }
    }
  }
}

/// max returns the first NaN in source order: here the bits show the order of operands, which a sum hides.
TEST(ExecutorAllReduce, OperandsKeepTheirOrderOnAllRanks) {
  for (const int ranks : {2, 3, 5, 8}) {
    Group group(find_algorithm(Operation::all_reduce, "recursive_doubling")->build({.ranks = ranks}), {});
    std::vector<std::uint32_t> data;
    std::vector<CollectiveCall> calls;
    for (int rank = 0; rank < ranks; ++rank) data.push_back(0x7fc00001u + static_cast<std::uint32_t>(rank));
    for (std::uint32_t& x : data) calls.push_back({.in = &x, .out = &x, .count = 1, .op = ReduceOp::max});
    group.run(calls);
    for (const std::uint32_t x : data) EXPECT_EQ(x, 0x7fc00001u) << "ranks " << ranks;
  }
}

TEST(ExecutorBroadcast, ReachesEveryRankFromEveryRootInPlaceAndOutOfPlace) {
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.operation != Operation::broadcast) continue;
    for (int ranks = 1; ranks <= 16; ++ranks) {
      for (int root = 0; root < ranks; ++root) {
        Group group(algorithm.build({.ranks = ranks, .root = root, .lanes = 1 + root % 3}),
                    {.network = {.refusal = 0.1, .seed = static_cast<std::uint64_t>(ranks * 16 + root)}});
        for (const std::size_t count : {0, 1, 2, 3, 15, 40}) {
          for (const bool in_place : {true, false}) {
            std::vector<std::int32_t> data(count);
            for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<std::int32_t>(i) * 3 + root;
            const std::vector<std::int32_t> sent = data;
            std::vector<std::vector<std::int32_t>> outputs(static_cast<std::size_t>(ranks),
                                                           std::vector<std::int32_t>(count, -1));
            std::vector<CollectiveCall> calls;
            for (int rank = 0; rank < ranks; ++rank) {
              std::vector<std::int32_t>& output = outputs[static_cast<std::size_t>(rank)];
              if (rank == root && in_place) output = data;
              calls.push_back({.in = rank == root && !in_place ? data.data() : nullptr,
                               .out = output.data(),
                               .count = count,
                               .dtype = DType::i32});
              if (rank == root && in_place) calls.back().in = output.data();
            }
            group.run(calls);
            ASSERT_FALSE(HasFatalFailure());
            for (const auto& output : outputs) ASSERT_EQ(output, sent) << algorithm.name << " root " << root;
            ASSERT_EQ(data, sent);
          }
        }
      }
    }
  }
}

TEST(ExecutorBroadcast, KeepsTheBitsOfNansWhetherPassedOnAtOnceOrLater) {
  const std::vector<std::uint32_t> bits = {0x7fc00001, 0x7f800001, 0xffc12345, 0x80000000, 0x00000001};
  for (const double refusal : {0.0, 0.5}) {
    Group group(find_algorithm(Operation::broadcast, "ring")->build({.ranks = 4}),
                {.network = {.refusal = refusal}});
    std::vector<std::vector<std::uint32_t>> buffers(4, std::vector<std::uint32_t>(bits.size(), 0));
    buffers[0] = bits;
    std::vector<CollectiveCall> calls;
    for (auto& buffer : buffers)
      calls.push_back({.in = buffer.data(), .out = buffer.data(), .count = bits.size()});
    group.run(calls);
    for (const auto& buffer : buffers) EXPECT_EQ(buffer, bits);
  }
}

TEST(ExecutorBarrier, NobodyLeavesBeforeTheLastHasEnteredAndAllAgreeOnTheLargestToken) {
  const Algorithm& barrier = *find_algorithm(Operation::barrier, "dissemination");
  for (int ranks = 2; ranks <= 16; ++ranks) {
    Group group(barrier.build({.ranks = ranks}), {});
    for (int late = 0; late < ranks; ++late) {
      std::vector<std::int32_t> tokens;
      for (int rank = 0; rank < ranks; ++rank) tokens.push_back((rank + late) % ranks);
      const auto call = [&](int rank) {
        std::int32_t* token = &tokens[static_cast<std::size_t>(rank)];
        return CollectiveCall{
            .in = token, .out = token, .count = 1, .dtype = DType::i32, .op = ReduceOp::max};
      };
      for (int rank = 0; rank < ranks; ++rank) {
        if (rank == late) continue;
        ASSERT_TRUE(group.executors[static_cast<std::size_t>(rank)]->start(call(rank)).is_ok());
      }
      for (int turn = 0; turn < 20; ++turn) {
        for (int rank = 0; rank < ranks; ++rank) {
          if (rank == late) continue;
          ASSERT_TRUE(group.executors[static_cast<std::size_t>(rank)]->progress().is_ok());
          ASSERT_FALSE(group.executors[static_cast<std::size_t>(rank)]->done())
              << "rank " << rank << " late " << late;
        }
      }
      ASSERT_TRUE(group.executors[static_cast<std::size_t>(late)]->start(call(late)).is_ok());
      for (int turn = 0; turn < 40; ++turn) {
        for (const auto& executor : group.executors) ASSERT_TRUE(executor->progress().is_ok());
      }
      ASSERT_TRUE(group.all_done());
      for (const std::int32_t token : tokens) ASSERT_EQ(token, ranks - 1);
    }
  }
}

TEST(ExecutorThreads, ManyOperationsInARowOnChannelsOfDepthOne) {
  constexpr int kOperations = 12;
  for (const int ranks : {2, 3, 4, 8}) {
    for (const Plan& plan : all_reduce_plans(ranks)) {
      Group group(plan, {.chunk_bytes = 64, .window = 4, .network = {.depth = 1, .max_bytes = 64}});
      std::vector<std::string> failures(static_cast<std::size_t>(ranks));
      std::vector<std::thread> threads;
      for (int rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
          Executor& executor = *group.executors[static_cast<std::size_t>(rank)];
          for (int k = 0; k < kOperations && failures[static_cast<std::size_t>(rank)].empty(); ++k) {
            std::vector<double> data(500 + static_cast<std::size_t>(k) * 37);
            for (std::size_t i = 0; i < data.size(); ++i) data[i] = value_of(rank + k, i, ReduceOp::sum);
            const base::Deadline deadline = base::Deadline::after_ms(60'000);
            const Status status = executor.run(
                {.in = data.data(), .out = data.data(), .count = data.size(), .dtype = DType::f64},
                [&](auto&& ready) -> Status {
                  while (!ready()) {
                    if (deadline.passed()) return Status(StatusCode::timeout, executor.describe_wait());
                    std::this_thread::yield();
                  }
                  return {};
                });
            std::string& failure = failures[static_cast<std::size_t>(rank)];
            if (!status.is_ok()) failure = status.to_string();
            for (std::size_t i = 0; i < data.size() && failure.empty(); ++i) {
              double sum = 0;
              for (int r = 0; r < ranks; ++r) sum += value_of(r + k, i, ReduceOp::sum);
              if (data[i] != sum)
                failure = "operation " + std::to_string(k) + " element " + std::to_string(i);
            }
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      for (const std::string& failure : failures)
        ASSERT_EQ(failure, "") << plan.algorithm() << " ranks " << ranks;
      EXPECT_TRUE(group.network.is_empty());
    }
  }
}

TEST(ExecutorRing, PartialSumsArePassedOnWithoutAStoreInTheOutput) {
  const Plan plan = find_algorithm(Operation::all_reduce, "ring")->build({.ranks = 4});
  for (int rank = 0; rank < 4; ++rank) {
    const std::vector<Step>& steps = plan.steps(rank, 0);
    int passed_on = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (!is_only_passed_on(steps, i)) continue;
      ++passed_on;
      EXPECT_EQ(steps[i].kind, StepKind::receive_reduce);
      EXPECT_FALSE(steps[i].finish);
    }
    EXPECT_EQ(passed_on, 2);  // all but the sum that this rank finishes
  }
  // In a tree nothing may be left out: what is passed on is also the result.
  const Plan tree = find_algorithm(Operation::broadcast, "binomial_tree")->build({.ranks = 8});
  for (std::size_t i = 0; i < tree.steps(4, 0).size(); ++i)
    EXPECT_FALSE(is_only_passed_on(tree.steps(4, 0), i));
}

TEST(ExecutorRing, OnlyASingleSendBeforeAReceiveAllowsToLeaveOutTheStore) {
  const Step writer = {.kind = StepKind::receive_reduce, .peer = 1};
  const Step send = {.kind = StepKind::send, .from = Side::output, .peer = 1, .after = 0};
  const Step overwrite = {.kind = StepKind::receive, .peer = 1};
  const Step of_another_block = {.kind = StepKind::receive, .block = 1, .peer = 1};
  const auto only_passed_on = [](const std::vector<Step>& steps) { return is_only_passed_on(steps, 0); };
  EXPECT_TRUE(only_passed_on({writer, send, overwrite}));
  EXPECT_TRUE(only_passed_on({writer, of_another_block, send, of_another_block, overwrite}));
  EXPECT_FALSE(only_passed_on({writer, send}));                   // it is the result
  EXPECT_FALSE(only_passed_on({writer, overwrite}));              // nowhere else to write it
  EXPECT_FALSE(only_passed_on({writer, send, send, overwrite}));  // the second send reads the output
  EXPECT_FALSE(
      only_passed_on({writer, send, {.kind = StepKind::receive_reduce, .from = Side::output, .peer = 1}}));
  EXPECT_FALSE(
      only_passed_on({writer, send, {.kind = StepKind::send, .from = Side::input, .peer = 1}, overwrite}));
  EXPECT_FALSE(only_passed_on({{.kind = StepKind::copy}, send, overwrite}));
}

TEST(ExecutorRing, SendsEachByteOfTheVectorTwiceLessTheOwnBlock) {
  Group group(find_algorithm(Operation::all_reduce, "ring")->build({.ranks = 4}), {});
  expect_all_reduce<std::int32_t>(group, 64, ReduceOp::sum, true);
  // 64 elements in 4 blocks of 4 chunks; 2 * 3 blocks leave each rank.
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(group.network.channel(rank, (rank + 1) % 4, 0).messages(), 24u);
}

}  // namespace
}  // namespace slipring::collectives
