// Every algorithm's plan, proven for every group size from 1 to 64 and every root.
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "collectives/algorithms/algorithm.h"
#include "collectives/plan_checker.h"

namespace slipring::collectives {
namespace {

/// 1 to 64. Sanitizers watch the checker's memory, not its proofs, and take ten times as long: a sample does.
std::vector<int> group_sizes() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return {1, 2, 3, 4, 5, 7, 8, 12, 16, 17};
#else
  std::vector<int> sizes(64);
  std::iota(sizes.begin(), sizes.end(), 1);
  return sizes;
#endif
}

class EveryAlgorithm : public testing::TestWithParam<Algorithm> {};

TEST_P(EveryAlgorithm, IsProvenForEveryGroupSizeAndRoot) {
  const Algorithm& algorithm = GetParam();
  for (const int ranks : group_sizes()) {
    const int roots = is_rooted(algorithm.operation) ? ranks : 1;
    for (int root = 0; root < roots; ++root) {
      const Plan plan = algorithm.build({.ranks = ranks, .root = root});
      PlanCheckOptions options{.random_schedules = root == 0 ? 3 : 1, .seed = static_cast<std::uint64_t>(ranks * 64 + root)};
      // Thousands of blocks, or the same plan turned to another root: fewer chunks show as much.
      if (root != 0 || plan.blocks() > 256 || ranks > 40) options = {.chunks_per_block = {1, 5}, .uneven = root == 0, .random_schedules = 1};
      const PlanCheck check = check_plan(plan, options);
      ASSERT_TRUE(check.ok()) << check.text;
    }
  }
}

TEST_P(EveryAlgorithm, IsProvenForSeveralLanesOnSeveralNodes) {
  const Algorithm& algorithm = GetParam();
  for (const int ranks : {2, 3, 6, 7, 12}) {
    std::vector<int> nodes;
    for (int rank = 0; rank < ranks; ++rank) nodes.push_back((rank * 5) % 3);
    for (const int lanes : {1, 2, 3, 4}) {
      const Plan plan =
          algorithm.build({.ranks = ranks, .root = ranks - 1, .lanes = lanes, .node_of_rank = nodes});
      EXPECT_EQ(plan.lanes(), lanes);
      const PlanCheck check = check_plan(plan);
      ASSERT_TRUE(check.ok()) << check.text;
    }
  }
}

TEST_P(EveryAlgorithm, IsProvenForOtherWindows) {
  for (const int window : {1, 2, 3, 8}) {
    for (const int ranks : {2, 3, 5, 8}) {
      const PlanCheck check = check_plan(GetParam().build({.ranks = ranks}),
                                         {.window = window, .chunks_per_block = {1, 2, 5, 9}});
      ASSERT_TRUE(check.ok()) << check.text;
    }
  }
}

TEST_P(EveryAlgorithm, BuildsForOneRankTheSameStepsAsForAll) {
  const Plan all = GetParam().build({.ranks = 7, .root = 3, .lanes = 2});
  for (int rank = 0; rank < 7; ++rank) {
    const Plan one = GetParam().build({.ranks = 7, .root = 3, .lanes = 2, .only_rank = rank});
    for (int other = 0; other < 7; ++other) {
      for (int lane = 0; lane < 2; ++lane) {
        const std::vector<Step> expected = other == rank ? all.steps(other, lane) : std::vector<Step>();
        EXPECT_EQ(one.steps(other, lane), expected);
      }
    }
  }
}

TEST_P(EveryAlgorithm, IsFoundByItsName) {
  const Algorithm* found = find_algorithm(GetParam().operation, GetParam().name);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->build, GetParam().build);
  EXPECT_FALSE(found->description.empty());
  const Plan plan = found->build({.ranks = 2});
  EXPECT_EQ(plan.operation(), found->operation);
  EXPECT_EQ(plan.algorithm(), found->name);
}

INSTANTIATE_TEST_SUITE_P(, EveryAlgorithm, testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const testing::TestParamInfo<Algorithm>& tested) {
                           return std::string(operation_name(tested.param.operation)) + "_" +
                                  std::string(tested.param.name);
                         });

TEST(Algorithms, UnknownNameIsNotFound) {
  EXPECT_EQ(find_algorithm(Operation::all_reduce, "dissemination"), nullptr);
  EXPECT_EQ(find_algorithm(Operation::barrier, "dissemination ring"), nullptr);
}

TEST(Algorithms, RequestsThatMakeNoSenseAreRefused) {
  EXPECT_TRUE(valid_request({.ranks = 3, .root = 2}).is_ok());
  const std::vector<int> nodes = {0, 1};
  for (const PlanRequest& request :
       {PlanRequest{.ranks = 0}, PlanRequest{.ranks = 2, .root = 2}, PlanRequest{.ranks = 2, .lanes = 0},
        PlanRequest{.ranks = 3, .node_of_rank = nodes}, PlanRequest{.ranks = 3, .only_rank = 3}}) {
    EXPECT_EQ(valid_request(request).code(), StatusCode::invalid_argument);
  }
}

TEST(RingOrder, EntersEachNodeOnceAndRunsBackwardsOnOddLanes) {
  const std::vector<int> nodes = {0, 1, 0, 1, 0, 1};
  const PlanRequest request{.ranks = 6, .node_of_rank = nodes};
  const RingOrder even(request, 0);
  const RingOrder odd(request, 1);
  int crossings = 0;
  for (int place = 0; place < 6; ++place) {
    EXPECT_EQ(even.place_of(even.rank_at(place)), place);
    EXPECT_EQ(odd.rank_at(5 - place), even.rank_at(place));
    crossings += nodes[static_cast<std::size_t>(even.rank_at(place))] !=
                 nodes[static_cast<std::size_t>(even.rank_at(place + 1))];
  }
  EXPECT_EQ(crossings, 2);
  EXPECT_EQ(even.rank_at(-1), even.rank_at(5));
}

}  // namespace
}  // namespace slipring::collectives
