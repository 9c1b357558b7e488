#include "collectives/plan_checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "collectives/plan_simulation.h"
#include "collectives/plan_text.h"

namespace slipring::collectives {

std::string_view plan_fault_name(PlanFault fault) noexcept {
  switch (fault) {
    case PlanFault::none:
      return "none";
    case PlanFault::malformed:
      return "malformed";
    case PlanFault::unmatched:
      return "unmatched";
    case PlanFault::wrong_block:
      return "wrong_block";
    case PlanFault::deadlock:
      return "deadlock";
    case PlanFault::read_too_early:
      return "read_too_early";
    case PlanFault::write_too_early:
      return "write_too_early";
    case PlanFault::undefined_read:
      return "undefined_read";
    case PlanFault::counted_twice:
      return "counted_twice";
    case PlanFault::wrong_content:
      return "wrong_content";
    case PlanFault::wrong_order:
      return "wrong_order";
    case PlanFault::wrong_finish:
      return "wrong_finish";
  }
  return "unknown";
}

namespace {

/// The rule of form that a step breaks, or an empty text.
std::string broken_rule(const Plan& plan, int rank, const std::vector<Step>& steps, std::size_t index) {
  const Step& step = steps[index];
  if (step.block < 0 || step.block >= plan.blocks()) return fmt::format("there are {} blocks", plan.blocks());
  if (step.kind == StepKind::copy) {
    if (step.peer != -1) return "a copy has no peer";
  } else if (step.peer < 0 || step.peer >= plan.ranks() || step.peer == rank) {
    return fmt::format("the peer is not another one of {} ranks", plan.ranks());
  }
  const bool writes_final = step.kind == StepKind::receive_reduce || step.kind == StepKind::copy;
  if (step.finish && !writes_final) return "only receive_reduce and copy finish a value";
  if (step.received_first && step.kind != StepKind::receive_reduce) return "only receive_reduce has an order";
  if (step.after == -1) return {};
  if (step.after < 0 || step.after >= static_cast<std::int32_t>(index)) {
    return fmt::format("after {} is not an earlier step", step.after);
  }
  const Step& awaited = steps[static_cast<std::size_t>(step.after)];
  if (awaited.block != step.block) return fmt::format("after {} is of block {}", step.after, awaited.block);
  if ((awaited.kind == StepKind::send) == (step.kind == StepKind::send)) {
    return fmt::format("after {} is on the same cursor, whose order holds anyway", step.after);
  }
  return {};
}

PlanCheck check_form(const Plan& plan, int lane) {
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const std::vector<Step>& steps = plan.steps(rank, lane);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::string rule = broken_rule(plan, rank, steps, i);
      if (rule.empty()) continue;
      return {PlanFault::malformed,
              fmt::format("rank {} {}: {}", rank, describe_step(steps, static_cast<std::int32_t>(i)), rule)};
    }
  }
  return {};
}

PlanCheck check_channels(const Plan& plan, int lane) {
  struct Traffic {
    std::vector<int> sent, received;  ///< blocks
  };
  std::map<std::pair<int, int>, Traffic> channels;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    for (const Step& step : plan.steps(rank, lane)) {
      if (step.kind == StepKind::copy) continue;
      if (step.kind == StepKind::send) {
        channels[{rank, step.peer}].sent.push_back(step.block);
      } else {
        channels[{step.peer, rank}].received.push_back(step.block);
      }
    }
  }
  for (const auto& [ends, traffic] : channels) {
    const auto [from, to] = ends;
    const std::size_t both = std::min(traffic.sent.size(), traffic.received.size());
    for (std::size_t k = 0; k < both; ++k) {
      if (traffic.sent[k] == traffic.received[k]) continue;
      return {PlanFault::wrong_block,
              fmt::format("rank {} sends block {} as message {} to rank {}, which expects block {}", from,
                          traffic.sent[k], k, to, traffic.received[k])};
    }
    if (traffic.sent.size() != traffic.received.size()) {
      return {PlanFault::unmatched, fmt::format("rank {} sends {} blocks to rank {}, which receives {}", from,
                                                traffic.sent.size(), to, traffic.received.size())};
    }
  }
  return {};
}

/// Holds the outputs of finished runs against the operation's definition, and against each other.
class Outcome {
 public:
  Outcome(const Plan& plan, const ExpressionTable& expressions)
      : plan_(plan), expressions_(expressions), agreed_(static_cast<std::size_t>(plan.blocks()), -1) {}

  PlanCheck check(const LaneSimulation& run) {
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      for (int block = 0; block < plan_.blocks(); ++block) {
        if (!needs_output(plan_.operation(), plan_.ranks(), plan_.root(), rank, block)) continue;
        for (std::size_t chunk = 0; chunk < run.chunks(block); ++chunk) {
          const PlanCheck check = check_value(block, run.output(rank, block, chunk));
          if (!check.ok()) {
            return {check.fault, fmt::format("rank {} block {} chunk {} ends as {}: {}", rank, block, chunk,
                                             expressions_.text(run.output(rank, block, chunk)), check.text)};
          }
        }
      }
    }
    return {};
  }

 private:
  /// The rank whose input a block is, in operations that only move; -1 in those that reduce.
  int giver_of(int block) const {
    switch (plan_.operation()) {
      case Operation::broadcast:
      case Operation::scatter:
        return plan_.root();
      case Operation::all_gather:
      case Operation::gather:
        return block;
      case Operation::all_to_all:
        return block / plan_.ranks();
      default:
        return -1;
    }
  }

  PlanCheck check_value(int block, std::int32_t value) {
    if (value == ExpressionTable::kUndefined) return {PlanFault::wrong_content, "nothing was written"};
    if (const int giver = giver_of(block); giver >= 0) {
      if (value == giver) return {};
      return {PlanFault::wrong_content, fmt::format("not the input of rank {}", giver)};
    }
    if (expressions_.contributions(value) != plan_.ranks()) {
      return {PlanFault::wrong_content, fmt::format("not the inputs of all {} ranks", plan_.ranks())};
    }
    if (plan_.operation() == Operation::barrier) {
      if (!expressions_.is_finished(value)) return {};
      return {PlanFault::wrong_finish, "a token is not finished"};
    }
    if (!expressions_.is_finished(value)) return {PlanFault::wrong_finish, "never finished"};
    std::int32_t& agreed = agreed_[static_cast<std::size_t>(block)];
    if (agreed < 0) agreed = value;
    if (agreed == value) return {};
    return {PlanFault::wrong_order, fmt::format("another rank has {}", expressions_.text(agreed))};
  }

  const Plan& plan_;
  const ExpressionTable& expressions_;
  std::vector<std::int32_t> agreed_;
};

std::vector<SimulationCase> cases_of(const Plan& plan, const PlanCheckOptions& options) {
  std::vector<std::size_t> per_block = options.chunks_per_block;
  const auto w = static_cast<std::size_t>(options.window);
  if (per_block.empty()) per_block = {1, w - 1, w, w + 1, 3 * w};
  const auto blocks = static_cast<std::size_t>(plan.blocks());
  std::vector<std::size_t> sizes = {0};
  for (const std::size_t k : per_block) {
    sizes.push_back(k * blocks);
    if (options.uneven && k > 0) sizes.push_back(k * blocks - blocks / 2);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  std::vector<SimulationCase> cases;
  for (const std::size_t size : sizes) {
    for (const bool in_place : {true, false}) {
      SimulationCase run{.lane_chunks = size, .window = options.window, .in_place = in_place};
      cases.push_back(run);
      run.check_hazards = false;  // clocks do not depend on the schedule: once is enough
      for (const ScheduleKind kind : {ScheduleKind::greedy_forward, ScheduleKind::greedy_backward}) {
        run.schedule = kind;
        cases.push_back(run);
      }
      run.schedule = ScheduleKind::random;
      for (int i = 0; i < options.random_schedules; ++i) {
        run.seed = options.seed + static_cast<std::uint64_t>(i);
        cases.push_back(run);
      }
    }
  }
  return cases;
}

std::string describe_case(const SimulationCase& run) {
  std::string schedule;
  switch (run.schedule) {
    case ScheduleKind::round_robin:
      schedule = "round robin";
      break;
    case ScheduleKind::greedy_forward:
      schedule = "greedy forward";
      break;
    case ScheduleKind::greedy_backward:
      schedule = "greedy backward";
      break;
    case ScheduleKind::random:
      schedule = fmt::format("random seed {}", run.seed);
      break;
  }
  return fmt::format("{} chunks, window {}, {}, schedule {}", run.lane_chunks, run.window,
                     run.in_place ? "in place" : "out of place", schedule);
}

PlanCheck check_lane(const Plan& plan, int lane, const std::vector<SimulationCase>& cases) {
  PlanCheck check = check_form(plan, lane);
  if (check.ok()) check = check_channels(plan, lane);
  if (!check.ok()) return check;
  ExpressionTable expressions(plan.ranks());
  Outcome outcome(plan, expressions);
  for (const SimulationCase& run : cases) {
    LaneSimulation simulation(plan, lane, run, expressions);
    check = simulation.run();
    if (check.ok()) check = outcome.check(simulation);
    if (!check.ok()) return {check.fault, fmt::format("{}: {}", describe_case(run), check.text)};
  }
  return {};
}

}  // namespace

PlanCheck check_plan(const Plan& plan, const PlanCheckOptions& options) {
  if (plan.ranks() < 1 || plan.lanes() < 1 || plan.blocks() < 1 || plan.root() < 0 ||
      plan.root() >= plan.ranks() ||
      (moves_blocks(plan.operation()) && plan.blocks() != blocks_of(plan.operation(), plan.ranks()))) {
    return {PlanFault::malformed, fmt::format("ranks {} lanes {} blocks {} root {}", plan.ranks(),
                                              plan.lanes(), plan.blocks(), plan.root())};
  }
  const std::vector<SimulationCase> cases = cases_of(plan, options);
  for (int lane = 0; lane < plan.lanes(); ++lane) {
    const PlanCheck check = check_lane(plan, lane, cases);
    if (check.ok()) continue;
    return {check.fault, fmt::format("{}: {} {}, {} ranks, root {}, lane {}: {}",
                                     plan_fault_name(check.fault), operation_name(plan.operation()),
                                     plan.algorithm(), plan.ranks(), plan.root(), lane, check.text)};
  }
  return {};
}

}  // namespace slipring::collectives
