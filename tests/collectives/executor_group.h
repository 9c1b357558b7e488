// All ranks of a plan in one thread, taking turns at random, and what an all_reduce of them must give.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "collectives/executor.h"
#include "slipring/float16.h"
#include "tests/collectives/fake_channels.h"

namespace slipring::collectives {

// No operation in these tests needs more turns without progress; a hang ends here instead of in the watchdog.
inline constexpr int kMostIdleTurns = 200'000;

/// Small integers, so that every order of reduction is exact in every type.
inline int value_of(int rank, std::size_t index, ReduceOp op) {
  const int mixed = static_cast<int>((index * 7 + static_cast<std::size_t>(rank) * 13 + index * index) % 11);
  if (op == ReduceOp::prod) return mixed < 2 ? 2 : (mixed % 2 == 0 ? 1 : -1);
  return mixed - 5;
}

template <class T>
T expected_value(int ranks, std::size_t index, ReduceOp op) {
  T value = static_cast<T>(value_of(0, index, op));
  for (int rank = 1; rank < ranks; ++rank) {
    const T next = static_cast<T>(value_of(rank, index, op));
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::avg:
        value = static_cast<T>(value + next);
        break;
      case ReduceOp::prod:
        value = static_cast<T>(value * next);
        break;
      case ReduceOp::min:
        value = std::min(value, next);
        break;
      case ReduceOp::max:
        value = std::max(value, next);
        break;
    }
  }
  return op == ReduceOp::avg ? static_cast<T>(value / static_cast<T>(ranks)) : value;
}

struct GroupOptions {
  std::size_t chunk_bytes = 16;
  int window = 2;
  FakeNetworkOptions network = {};
};

/// All ranks of one plan in one thread.
class Group {
 public:
  Group(const Plan& plan, const GroupOptions& options)
      : network(options.network), random(options.network.seed) {
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      auto made = Executor::create(plan, rank, network.of(rank),
                                   {.chunk_bytes = options.chunk_bytes, .window = options.window});
      EXPECT_TRUE(made.is_ok()) << made.status().to_string();
      executors.push_back(std::move(*made));
    }
  }
  int ranks() const { return static_cast<int>(executors.size()); }

  /// Lets ranks take turns at random until all are done.
  void run(const std::vector<CollectiveCall>& calls) {
    for (int rank = 0; rank < ranks(); ++rank) {
      const Status started =
          executors[static_cast<std::size_t>(rank)]->start(calls[static_cast<std::size_t>(rank)]);
      ASSERT_TRUE(started.is_ok()) << started.to_string();
    }
    for (int idle = 0; !all_done();) {
      const int rank = static_cast<int>(random() % static_cast<unsigned>(ranks()));
      const Result<std::size_t> moved = executors[static_cast<std::size_t>(rank)]->progress();
      ASSERT_TRUE(moved.is_ok()) << moved.status().to_string();
      idle = moved.value() > 0 ? 0 : idle + 1;
      ASSERT_LT(idle, kMostIdleTurns) << executors[static_cast<std::size_t>(rank)]->describe_wait();
    }
    EXPECT_TRUE(network.is_empty());
  }
  bool all_done() const {
    for (const auto& executor : executors) {
      if (!executor->done()) return false;
    }
    return true;
  }

  FakeNetwork network;
  std::minstd_rand random;
  std::vector<std::unique_ptr<Executor>> executors;
};

template <class T>
void expect_all_reduce(Group& group, std::size_t count, ReduceOp op, bool in_place) {
  std::vector<std::vector<T>> inputs, outputs;
  std::vector<CollectiveCall> calls;
  for (int rank = 0; rank < group.ranks(); ++rank) {
    std::vector<T>& input = inputs.emplace_back();
    for (std::size_t i = 0; i < count; ++i) input.push_back(static_cast<T>(value_of(rank, i, op)));
    outputs.push_back(in_place ? input : std::vector<T>(count, static_cast<T>(77)));
  }
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    calls.push_back({.in = in_place ? outputs[r].data() : inputs[r].data(),
                     .out = outputs[r].data(),
                     .count = count,
                     .dtype = dtype_of<T>::value,
                     .op = op});
  }
  group.run(calls);
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(outputs[r][i], expected_value<T>(group.ranks(), i, op)) << "rank " << r << " element " << i;
      ASSERT_EQ(inputs[r][i], static_cast<T>(value_of(static_cast<int>(r), i, op)))
          << "rank " << r << " input " << i;
    }
  }
}

}  // namespace slipring::collectives
