// The checker itself: it names the rule that a broken plan violates. Good plans are mutated in every place.
#include "collectives/plan_checker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "collectives/algorithms/algorithm.h"
#include "collectives/plan_simulation.h"

namespace slipring::collectives {
namespace {

Plan build(Operation operation, std::string_view name, int ranks, int root = 0) {
  return find_algorithm(operation, name)->build({.ranks = ranks, .root = root});
}
Plan ring(int ranks = 4) {
  return build(Operation::all_reduce, "ring", ranks);
}
Plan doubling(int ranks = 4) {
  return build(Operation::all_reduce, "recursive_doubling", ranks);
}

void expect_fault(const Plan& plan, PlanFault fault, std::string_view text = "") {
  const PlanCheck check = check_plan(plan);
  EXPECT_EQ(plan_fault_name(check.fault), plan_fault_name(fault)) << check.text;
  EXPECT_NE(check.text.find(text), std::string::npos) << check.text;
}

/// Removes a step and keeps the indices of the others' `after` right.
void drop(std::vector<Step>& steps, std::size_t index) {
  steps.erase(steps.begin() + static_cast<std::ptrdiff_t>(index));
  for (Step& step : steps) {
    if (step.after == static_cast<std::int32_t>(index)) {
      step.after = -1;
    } else if (step.after > static_cast<std::int32_t>(index)) {
      --step.after;
    }
  }
}

TEST(PlanChecker, AcceptsThePlanThatThePlanHeaderWritesByHand) {
  Plan plan(Operation::broadcast, "by_hand", 3, 0, 1, 1);
  plan.steps(0, 0) = {{.kind = StepKind::copy}, {.kind = StepKind::send, .from = Side::input, .peer = 1}};
  plan.steps(1, 0) = {{.kind = StepKind::receive, .peer = 0},
                      {.kind = StepKind::send, .from = Side::output, .peer = 2, .after = 0}};
  plan.steps(2, 0) = {{.kind = StepKind::receive, .peer = 1}};
  const PlanCheck check = check_plan(plan);
  EXPECT_TRUE(check.ok()) << check.text;
}

TEST(PlanChecker, DroppedSendOrReceiveIsUnmatched) {
  for (const std::size_t last : {10u, 11u}) {
    Plan plan = ring();
    drop(plan.steps(2, 0), last);
    expect_fault(plan, PlanFault::unmatched,
                 last == 10 ? "rank 2 sends 5 blocks to rank 3, which receives 6"
                            : "rank 1 sends 6 blocks to rank 2, which receives 5");
  }
}

TEST(PlanChecker, DroppedStepInTheMiddleShiftsTheBlocks) {
  Plan plan = ring();
  drop(plan.steps(1, 0), 2);
  expect_fault(plan, PlanFault::wrong_block, "rank 1 sends block");
}

TEST(PlanChecker, DroppedCopyLeavesTheRootWithoutItsOutput) {
  Plan plan = build(Operation::broadcast, "ring", 3);
  drop(plan.steps(0, 0), 0);
  expect_fault(plan, PlanFault::wrong_content, "rank 0 block 0 chunk 0 ends as undefined");
}

TEST(PlanChecker, SwappedSendsAreWrongBlocks) {
  Plan plan = ring();
  std::vector<Step>& steps = plan.steps(0, 0);
  std::swap(steps[2].block, steps[4].block);
  steps[2].after = steps[4].after = -1;
  expect_fault(plan, PlanFault::wrong_block);
}

TEST(PlanChecker, SwappedSendAndReceiveChangeWhatTheListMeans) {
  Plan plan = doubling(2);
  std::vector<Step>& steps = plan.steps(0, 0);
  std::swap(steps[0], steps[1]);
  steps[0].after = -1;
  expect_fault(plan, PlanFault::read_too_early, "rank 0 step 1 (send block 0 to rank 1)");
}

TEST(PlanChecker, WrongPeerIsUnmatched) {
  Plan plan = ring();
  plan.steps(0, 0)[0].peer = 2;
  expect_fault(plan, PlanFault::wrong_block);
  plan = build(Operation::broadcast, "ring", 4);
  plan.steps(0, 0)[1].peer = 2;
  expect_fault(plan, PlanFault::unmatched, "rank 0 sends 0 blocks to rank 1, which receives 1");
}

TEST(PlanChecker, PeersOutOfRangeAndOneselfAreMalformed) {
  for (const int peer : {-1, 4, 0}) {
    Plan plan = ring();
    plan.steps(0, 0)[0].peer = peer;
    expect_fault(plan, PlanFault::malformed, "the peer is not another one of 4 ranks");
  }
  Plan plan = build(Operation::broadcast, "ring", 2);
  plan.steps(0, 0)[0].peer = 1;
  expect_fault(plan, PlanFault::malformed, "a copy has no peer");
}

TEST(PlanChecker, BlocksOutOfRangeAreMalformed) {
  for (const int block : {-1, 4}) {
    Plan plan = ring();
    plan.steps(3, 0)[1].block = block;
    expect_fault(plan, PlanFault::malformed, "there are 4 blocks");
  }
}

TEST(PlanChecker, MissingFinishIsWrongFinish) {
  Plan plan = ring();
  plan.steps(0, 0)[5].finish = false;
  expect_fault(plan, PlanFault::wrong_finish, "never finished");
}

TEST(PlanChecker, FinishThatComesTooEarlyOrTwiceIsWrongFinish) {
  Plan plan = ring();
  plan.steps(0, 0)[1].finish = true;
  expect_fault(plan, PlanFault::wrong_finish, "reduces a value that is finished already");
  plan = ring();
  plan.steps(0, 0)[7].finish = true;
  expect_fault(plan, PlanFault::malformed, "only receive_reduce and copy finish a value");
  plan = ring(1);
  plan.steps(0, 0).push_back({.kind = StepKind::copy, .finish = true});
  expect_fault(plan, PlanFault::wrong_finish);
}

TEST(PlanChecker, FinishedTokenOfABarrierIsWrongFinish) {
  Plan plan = build(Operation::barrier, "dissemination", 4);
  plan.steps(1, 0).back().finish = true;
  expect_fault(plan, PlanFault::wrong_finish, "a token is not finished");
}

TEST(PlanChecker, SendThatDoesNotWaitForWhatItReadsIsAHazard) {
  for (std::size_t i = 2; i < 12; i += 2) {
    Plan plan = ring();
    ASSERT_EQ(plan.steps(1, 0)[i].kind, StepKind::send);
    plan.steps(1, 0)[i].after = -1;
    expect_fault(plan, PlanFault::read_too_early, "nothing makes it wait for step " + std::to_string(i - 1));
  }
}

TEST(PlanChecker, ReceiveThatOverwritesWhatIsStillToBeSentIsAHazard) {
  Plan plan = doubling();
  plan.steps(2, 0)[3].after = -1;
  expect_fault(plan, PlanFault::write_too_early, "rank 2 step 3 (receive_reduce block 0 from rank 0)");
  plan = build(Operation::barrier, "dissemination", 5);
  plan.steps(4, 0)[1].after = -1;
  expect_fault(plan, PlanFault::write_too_early, "in place");
}

TEST(PlanChecker, AfterThatIsNotAnEarlierStepOfTheBlockOnTheOtherCursorIsMalformed) {
  Plan plan = ring();
  plan.steps(0, 0)[2].after = 3;
  expect_fault(plan, PlanFault::malformed, "after 3 is not an earlier step");
  plan.steps(0, 0)[2].after = -2;
  expect_fault(plan, PlanFault::malformed, "after -2 is not an earlier step");
  plan.steps(0, 0)[2].after = 0;
  expect_fault(plan, PlanFault::malformed, "after 0 is of block 0");
  plan = doubling(8);
  plan.steps(0, 0)[4].after = 2;
  expect_fault(plan, PlanFault::malformed, "same cursor");
}

TEST(PlanChecker, AfterAnOlderStepThanTheLastWriterIsAHazard) {
  Plan plan = doubling(8);
  plan.steps(0, 0)[4].after = 1;  // the last writer is step 3
  expect_fault(plan, PlanFault::read_too_early, "nothing makes it wait for step 3");
}

TEST(PlanChecker, RanksThatAllReceiveFirstDeadlock) {
  Plan plan(Operation::all_reduce, "receive_first", 2, 0, 1, 1);
  for (int rank = 0; rank < 2; ++rank) {
    plan.steps(rank, 0) = {{.kind = StepKind::receive_reduce, .finish = true, .peer = 1 - rank},
                           {.kind = StepKind::send, .from = Side::output, .peer = 1 - rank, .after = 0}};
  }
  expect_fault(plan, PlanFault::deadlock,
               "rank 1 cannot do step 0 (receive_reduce block 0 from rank 0) chunk 0");
}

/// Each rank's first receive is held until its second send is out, and that needs room which only the other's
/// first receive makes: legal where channels hold two messages, a deadlock where they hold one.
TEST(PlanChecker, RelianceOnBufferingIsADeadlock) {
  Plan plan(Operation::all_reduce, "buffering", 2, 0, 1, 2);
  for (int rank = 0; rank < 2; ++rank) {
    const int first = 1 - rank;  // block
    const int peer = 1 - rank;
    const bool second_operand = rank == 1;
    plan.steps(rank, 0) = {{.kind = StepKind::send, .from = Side::input, .block = first, .peer = peer},
                           {.kind = StepKind::send, .from = Side::input, .block = 1 - first, .peer = peer},
                           {.kind = StepKind::receive_reduce,
                            .received_first = second_operand,
                            .finish = true,
                            .block = 1 - first,
                            .peer = peer,
                            .after = 1},
                           {.kind = StepKind::receive_reduce,
                            .received_first = second_operand,
                            .finish = true,
                            .block = first,
                            .peer = peer,
                            .after = 0}};
  }
  expect_fault(plan, PlanFault::deadlock, "rank 0 cannot do step 1 (send block 0 to rank 1) chunk 0");
}

TEST(PlanChecker, ReadingAnOutputThatWasNeverWrittenIsNamed) {
  Plan plan = doubling(2);
  plan.steps(0, 0)[0].from = Side::output;
  expect_fault(plan, PlanFault::undefined_read, "rank 0 step 0 (send block 0 to rank 1)");
  plan = doubling(2);
  plan.steps(0, 0)[1].from = Side::output;
  expect_fault(plan, PlanFault::undefined_read, "out of place");
}

TEST(PlanChecker, CountingAnInputTwiceIsNamed) {
  Plan plan = doubling(2);
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<Step>& steps = plan.steps(rank, 0);
    steps[1].finish = false;
    steps.push_back({.kind = StepKind::send, .from = Side::output, .peer = 1 - rank, .after = 1});
    steps.push_back({.kind = StepKind::receive_reduce,
                     .from = Side::output,
                     .finish = true,
                     .peer = 1 - rank,
                     .after = 2});
  }
  expect_fault(plan, PlanFault::counted_twice, "share inputs");
}

TEST(PlanChecker, MissingContributionsAreWrongContent) {
  Plan plan = ring();
  Step& reduce = plan.steps(0, 0)[1];
  reduce.kind = StepKind::receive;  // forgets the input of rank 0
  expect_fault(plan, PlanFault::wrong_content, "not the inputs of all 4 ranks");
  plan = build(Operation::barrier, "dissemination", 4);
  for (int rank = 0; rank < 4; ++rank) {
    plan.steps(rank, 0).resize(2);  // one round of two
  }
  expect_fault(plan, PlanFault::wrong_content, "not the inputs of all 4 ranks");
}

TEST(PlanChecker, BroadcastFromAnotherRankThanTheRootIsWrongContent) {
  const Plan good = build(Operation::broadcast, "binomial_tree", 4, 1);
  Plan plan(Operation::broadcast, "binomial_tree", 4, 2, 1, 1);
  for (int rank = 0; rank < 4; ++rank) plan.steps(rank, 0) = good.steps(rank, 0);
  expect_fault(plan, PlanFault::wrong_content, "not the input of rank 2");
}

TEST(PlanChecker, OrderThatDependsOnTheRankIsNamed) {
  Plan plan = doubling(2);
  plan.steps(1, 0)[1].received_first = false;
  expect_fault(plan, PlanFault::wrong_order, "(1 0)!");
}

TEST(PlanChecker, EmptyShapesAreMalformed) {
  EXPECT_EQ(check_plan(Plan(Operation::barrier, "none", 0, 0, 1, 1)).fault, PlanFault::malformed);
  EXPECT_EQ(check_plan(Plan(Operation::barrier, "none", 1, 0, 0, 1)).fault, PlanFault::malformed);
  EXPECT_EQ(check_plan(Plan(Operation::barrier, "none", 1, 0, 1, 0)).fault, PlanFault::malformed);
  EXPECT_EQ(check_plan(Plan(Operation::broadcast, "none", 2, 2, 1, 1)).fault, PlanFault::malformed);
}

TEST(PlanChecker, FaultOfALaterLaneIsFound) {
  Plan plan = find_algorithm(Operation::all_reduce, "ring")->build({.ranks = 3, .lanes = 3});
  plan.steps(2, 2)[2].after = -1;
  expect_fault(plan, PlanFault::read_too_early, "lane 2");
}

/// Every single change to every step, for every algorithm.
class EveryMutation : public testing::TestWithParam<Algorithm> {};

TEST_P(EveryMutation, DroppingAnyStepIsFound) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    const Plan good = GetParam().build({.ranks = ranks});
    for (int rank = 0; rank < ranks; ++rank) {
      for (std::size_t i = 0; i < good.steps(rank, 0).size(); ++i) {
        Plan plan = good;
        drop(plan.steps(rank, 0), i);
        const PlanCheck check = check_plan(plan);
        EXPECT_FALSE(check.ok()) << "ranks " << ranks << " rank " << rank << " step " << i;
      }
    }
  }
}

/// A send is held by an earlier one that follows the same step or a later one: only there is `after` redundant.
bool is_held_by_an_earlier_send(const std::vector<Step>& steps, std::size_t index) {
  return std::any_of(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(index),
                     [&](const Step& earlier) {
                       return earlier.kind == steps[index].kind && earlier.after >= steps[index].after;
                     });
}

TEST_P(EveryMutation, ForgettingAnyDependencyIsAHazard) {
  for (const int ranks : {2, 3, 5, 8}) {
    const Plan good = GetParam().build({.ranks = ranks});
    for (int rank = 0; rank < ranks; ++rank) {
      for (std::size_t i = 0; i < good.steps(rank, 0).size(); ++i) {
        if (good.steps(rank, 0)[i].after < 0) continue;
        Plan plan = good;
        plan.steps(rank, 0)[i].after = -1;
        const PlanCheck check = check_plan(plan);
        const bool hazard =
            check.fault == PlanFault::read_too_early || check.fault == PlanFault::write_too_early;
        EXPECT_NE(hazard, is_held_by_an_earlier_send(good.steps(rank, 0), i))
            << "ranks " << ranks << " rank " << rank << " step " << i << ": " << plan_fault_name(check.fault)
            << " " << check.text;
      }
    }
  }
}

TEST_P(EveryMutation, ChangingAnyFieldIsFound) {
  for (const int ranks : {2, 3, 4, 6}) {
    const Plan good = GetParam().build({.ranks = ranks});
    for (int rank = 0; rank < ranks; ++rank) {
      for (std::size_t i = 0; i < good.steps(rank, 0).size(); ++i) {
        const auto changed = [&](auto&& change) {
          Plan plan = good;
          change(plan.steps(rank, 0)[i]);
          return check_plan(plan).fault;
        };
        SCOPED_TRACE("ranks " + std::to_string(ranks) + " rank " + std::to_string(rank) + " step " +
                     std::to_string(i));
        EXPECT_NE(changed([&](Step& step) { step.block = (step.block + 1) % (good.blocks() + 1); }),
                  PlanFault::none);
        EXPECT_NE(changed([&](Step& step) { step.peer = (step.peer + 1) % ranks; }), PlanFault::none);
        EXPECT_NE(changed([](Step& step) { step.finish = !step.finish; }), PlanFault::none);
        const StepKind kind = good.steps(rank, 0)[i].kind;
        for (const StepKind other :
             {StepKind::send, StepKind::receive, StepKind::receive_reduce, StepKind::copy}) {
          if (other == kind) continue;
          EXPECT_NE(changed([&](Step& step) { step.kind = other; }), PlanFault::none)
              << step_kind_name(other);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, EveryMutation, testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const testing::TestParamInfo<Algorithm>& tested) {
                           return std::string(operation_name(tested.param.operation)) + "_" +
                                  std::string(tested.param.name);
                         });

TEST(PlanSimulation, EveryScheduleEndsWithTheSameExpressions) {
  for (const Plan& plan : {ring(5), doubling(6)}) {
    ExpressionTable expressions(plan.ranks());
    std::set<std::int32_t> results;
    for (const ScheduleKind kind : {ScheduleKind::round_robin, ScheduleKind::greedy_forward,
                                    ScheduleKind::greedy_backward, ScheduleKind::random}) {
      for (std::uint64_t seed = 0; seed < 20; ++seed) {
        LaneSimulation run(plan, 0, {.lane_chunks = 30, .window = 2, .schedule = kind, .seed = seed},
                           expressions);
        const PlanCheck check = run.run();
        ASSERT_TRUE(check.ok()) << check.text;
        for (int rank = 0; rank < plan.ranks(); ++rank) results.insert(run.output(rank, 0, 0));
      }
    }
    EXPECT_EQ(results.size(), 1u);
  }
}

TEST(PlanSimulation, TheTreesAreWhatTheAlgorithmsPromise) {
  const Plan plan = doubling(6);  // ranks 0-3 pair up, then (01)(23) meet 4 and 5 as (01 23)(4 5)
  ExpressionTable expressions(6);
  LaneSimulation run(plan, 0, {}, expressions);
  ASSERT_TRUE(run.run().ok());
  EXPECT_EQ(expressions.text(run.output(5, 0, 0)), "(((0 1) (2 3)) (4 5))!");
  const Plan around = ring(4);
  ExpressionTable ring_expressions(4);
  LaneSimulation ring_run(around, 0, {.lane_chunks = 4}, ring_expressions);
  ASSERT_TRUE(ring_run.run().ok());
  EXPECT_EQ(ring_expressions.text(ring_run.output(2, 0, 0)), "(3 (2 (1 0)))!");
}

}  // namespace
}  // namespace slipring::collectives
