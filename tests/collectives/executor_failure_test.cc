// What an executor does when a channel fails, a peer misbehaves, a wait gives up, or a caller errs.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "collectives/algorithms/algorithm.h"
#include "tests/collectives/executor_group.h"

namespace slipring::collectives {
namespace {

/// Two ranks of a ring, neither of which has moved.
class ExecutorFailure : public testing::Test {
 protected:
  ExecutorFailure()
      : plan_(find_algorithm(Operation::all_reduce, "ring")->build({.ranks = 2})), group_(plan_, {}) {}

  Plan plan_;
  Group group_;
  std::vector<float> data_ = std::vector<float>(32, 1.0f);
  CollectiveCall call_ = {.in = data_.data(), .out = data_.data(), .count = 32};
};

TEST_F(ExecutorFailure, PoisonOfAChannelNamesOperationRankStepAndPeerAndStays) {
  Executor& executor = *group_.executors[0];
  ASSERT_TRUE(executor.start(call_).is_ok());
  group_.network.channel(1, 0, 0).fail(base::error(StatusCode::peer_lost, "rank 1 is gone"));
  const Result<std::size_t> moved = executor.progress();
  ASSERT_FALSE(moved.is_ok());
  EXPECT_EQ(moved.status().to_string(),
            "peer_lost: rank 1 is gone; all_reduce ring on rank 0: step 1 (receive_reduce block 1 from rank "
            "1) chunk 0");
  EXPECT_FALSE(executor.done());
  EXPECT_EQ(executor.progress().status().to_string(), moved.status().to_string());
  EXPECT_EQ(executor.start(call_).code(), StatusCode::peer_lost);
  const Status run = executor.run(call_, [](auto&&) { return Status(); });
  EXPECT_EQ(run.code(), StatusCode::peer_lost);
}

TEST_F(ExecutorFailure, PoisonWhileWaitingEndsTheWait) {
  Executor& executor = *group_.executors[0];
  int waits = 0;
  const Status status = executor.run(call_, [&](auto&& ready) {
    if (++waits > 1) return Status(StatusCode::timeout, "waited twice");
    group_.network.channel(1, 0, 0).fail(Status(StatusCode::aborted, "enough"));
    EXPECT_TRUE(ready());
    return Status();
  });
  EXPECT_EQ(status.code(), StatusCode::aborted);
  EXPECT_EQ(waits, 1);
}

TEST_F(ExecutorFailure, AWaitThatGivesUpEndsTheRunAndTheExecutorSaysWhomItAwaits) {
  Executor& executor = *group_.executors[0];
  const Status status = executor.run(call_, [&](auto&& ready) {
    EXPECT_FALSE(ready());
    return Status(StatusCode::timeout, executor.describe_wait());
  });
  EXPECT_EQ(status.to_string(),
            "timeout: lane 0: no message or hold for step 1 (receive_reduce block 1 from rank 1) chunk 0; "
            "lane 0: no room "
            "for step 0 (send block 0 to rank 1) chunk 1");
  EXPECT_EQ(executor.awaited_peers(), (std::vector<int>{1, 1}));
}

TEST_F(ExecutorFailure, MessageOfAnotherSizeIsCorrupt) {
  std::span<std::byte> slot;
  FakeChannel& channel = group_.network.channel(1, 0, 0);
  ASSERT_TRUE(channel.try_loan(12, slot).is_ok());
  channel.publish();
  ASSERT_TRUE(group_.executors[0]->start(call_).is_ok());
  const Result<std::size_t> moved = group_.executors[0]->progress();
  EXPECT_EQ(moved.status().code(), StatusCode::corrupt);
  EXPECT_NE(moved.status().message().find("message of 12 bytes where 16 were due"), std::string::npos);
}

TEST_F(ExecutorFailure, CallsThatCanNeverWorkAreRefusedAndDoNoHarm) {
  Executor& executor = *group_.executors[0];
  for (const CollectiveCall& call :
       {CollectiveCall{.in = data_.data(), .out = nullptr, .count = 1},
        CollectiveCall{.in = data_.data(), .out = data_.data() + 1, .count = 4},
        CollectiveCall{.in = data_.data() + 3, .out = data_.data(), .count = 4},
        CollectiveCall{.in = data_.data(), .out = data_.data(), .count = SIZE_MAX / 2}}) {
    EXPECT_EQ(executor.start(call).code(), StatusCode::invalid_argument);
  }
  // Side by side is not an overlap, and no elements need no buffer.
  EXPECT_TRUE(executor.start({.in = nullptr, .out = nullptr, .count = 0}).is_ok());
  EXPECT_TRUE(executor.done());
  EXPECT_TRUE(executor.start({.in = data_.data() + 4, .out = data_.data(), .count = 4}).is_ok());
  EXPECT_EQ(executor.start(call_).code(), StatusCode::invalid_argument);  // not done yet
}

TEST_F(ExecutorFailure, OptionsThatCanNeverWorkAreRefused) {
  const auto code_of = [&](int rank, const ExecutorOptions& options) {
    return Executor::create(plan_, rank, group_.network.of(0), options).status().code();
  };
  EXPECT_EQ(code_of(2, {.chunk_bytes = 64}), StatusCode::invalid_argument);
  EXPECT_EQ(code_of(-1, {.chunk_bytes = 64}), StatusCode::invalid_argument);
  EXPECT_EQ(code_of(0, {.chunk_bytes = 7}), StatusCode::invalid_argument);
  EXPECT_EQ(code_of(0, {.chunk_bytes = 64, .window = 0}), StatusCode::invalid_argument);
  EXPECT_EQ(code_of(0, {.chunk_bytes = 65}), StatusCode::invalid_argument);  // the channels hold 64
  const auto cut =
      Executor::create(plan_, 0, group_.network.of(0), {.chunk_bytes = 65536, .max_message_bytes = 64});
  ASSERT_TRUE(cut.is_ok()) << cut.status().to_string();
  EXPECT_EQ(cut.value()->chunk_bytes(), 64u);
}

}  // namespace
}  // namespace slipring::collectives
