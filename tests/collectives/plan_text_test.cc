// Plans as people read them, and what they cost on paper.
#include "collectives/plan_text.h"

#include <gtest/gtest.h>

#include <cmath>

#include "collectives/algorithms/algorithm.h"
#include "collectives/plan_cost.h"

namespace slipring::collectives {
namespace {

Plan build(Operation operation, std::string_view name, const PlanRequest& request) {
  return find_algorithm(operation, name)->build(request);
}

TEST(PlanText, DrawsARingOfTwo) {
  EXPECT_EQ(draw_plan(build(Operation::all_reduce, "ring", {.ranks = 2})),
            "all_reduce ring: ranks 2, lanes 1, blocks 2 per lane\n"
            "rank 0\n"
            "     0  b0 -> 1                   send input\n"
            "     1  b1 <- 1                   output = input op message, finish\n"
            "     2  b1 -> 1       after 1     send output\n"
            "     3  b0 <- 1                   output = message\n"
            "rank 1\n"
            "     0  b1 -> 0                   send input\n"
            "     1  b0 <- 0                   output = input op message, finish\n"
            "     2  b0 -> 0       after 1     send output\n"
            "     3  b1 <- 0                   output = message\n");
}

TEST(PlanText, NamesTheRootAndTheLanes) {
  const std::string text =
      draw_plan(build(Operation::broadcast, "ring", {.ranks = 2, .root = 1, .lanes = 2}));
  EXPECT_NE(text.find("broadcast ring: ranks 2, lanes 2, blocks 1 per lane, root 1\n"), std::string::npos);
  EXPECT_NE(text.find("rank 1 lane 1\n     0  b0                        output = input\n"), std::string::npos)
      << text;
}

TEST(PlanText, ShowsWhichOperandComesFirst) {
  const std::string text = draw_plan(build(Operation::all_reduce, "recursive_doubling", {.ranks = 2}));
  EXPECT_NE(text.find("after 0     output = message op input, finish\n"), std::string::npos) << text;
}

constexpr LinkModel kLink = {.alpha_us = 2.0, .beta_us_per_byte = 0.001};

TEST(PlanCost, RingAgreesWithItsFormula) {
  for (const int ranks : {2, 4, 7, 64}) {
    const Plan plan = build(Operation::all_reduce, "ring", {.ranks = ranks});
    const std::size_t count = static_cast<std::size_t>(ranks) * 1000;
    const PlanCost cost = plan_cost(plan, count, 4, 4000, 4, kLink);
    const double steps = 2.0 * (ranks - 1);
    EXPECT_NEAR(cost.time_us, steps * (2.0 + 4.0), 1e-6) << ranks;
    EXPECT_EQ(cost.messages, static_cast<std::size_t>(2 * (ranks - 1) * ranks));
    EXPECT_EQ(cost.most_sent_bytes, static_cast<std::size_t>(2 * (ranks - 1)) * 4000);
    EXPECT_EQ(cost.bytes, static_cast<std::size_t>(ranks) * cost.most_sent_bytes);
  }
}

TEST(PlanCost, TreesAndDoublingTakeALogarithmOfSteps) {
  for (const int ranks : {2, 8, 64, 1024}) {
    const double rounds = std::log2(ranks);
    EXPECT_NEAR(
        plan_cost(build(Operation::barrier, "dissemination", {.ranks = ranks}), 1, 4, 64, 4, kLink).time_us,
        rounds * 2.004, 1e-6);
    EXPECT_NEAR(
        plan_cost(build(Operation::broadcast, "binomial_tree", {.ranks = ranks}), 1, 4, 64, 4, kLink).time_us,
        rounds * 2.004, 1e-6);
    EXPECT_NEAR(
        plan_cost(build(Operation::all_reduce, "recursive_doubling", {.ranks = ranks}), 10, 4, 64, 4, kLink)
            .time_us,
        rounds * 2.040, 1e-6);
  }
}

TEST(PlanCost, ChainIsAPipeline) {
  const Plan plan = build(Operation::broadcast, "ring", {.ranks = 10});
  // 100 chunks enter one after the other; the last one then crosses 8 more links.
  EXPECT_NEAR(plan_cost(plan, 100'000, 4, 4000, 4, kLink).time_us, (100 + 8) * 6.0, 1e-6);
}

TEST(PlanCost, SaysWhereRingAndDoublingCross) {
  const Plan ring = build(Operation::all_reduce, "ring", {.ranks = 16});
  const Plan doubling = build(Operation::all_reduce, "recursive_doubling", {.ranks = 16});
  EXPECT_GT(plan_cost(ring, 16, 4, 65536, 4, kLink).time_us,
            plan_cost(doubling, 16, 4, 65536, 4, kLink).time_us);
  EXPECT_LT(plan_cost(ring, 1 << 20, 4, 65536, 4, kLink).time_us,
            plan_cost(doubling, 1 << 20, 4, 65536, 4, kLink).time_us);
}

TEST(PlanCost, LocalWorkAndEmptyOperationsAreCounted) {
  const Plan plan = build(Operation::all_reduce, "ring", {.ranks = 1});
  EXPECT_NEAR(plan_cost(plan, 1000, 4, 64, 4, {.gamma_us_per_byte = 0.01}).time_us, 40.0, 1e-9);
  EXPECT_EQ(plan_cost(plan, 0, 4, 64, 4, kLink).time_us, 0);
}

}  // namespace
}  // namespace slipring::collectives
