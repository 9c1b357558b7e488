#include "collectives/plan_text.h"

#include <fmt/format.h>

namespace slipring::collectives {

namespace {

std::string_view side_name(Side side) {
  return side == Side::input ? "input" : "output";
}

std::string effect(const Step& step) {
  std::string text;
  switch (step.kind) {
    case StepKind::send:
      text = fmt::format("send {}", side_name(step.from));
      break;
    case StepKind::receive:
      text = "output = message";
      break;
    case StepKind::receive_reduce:
      text = step.received_first ? fmt::format("output = message op {}", side_name(step.from))
                                 : fmt::format("output = {} op message", side_name(step.from));
      break;
    case StepKind::copy:
      text = "output = input";
      break;
  }
  return step.finish ? text + ", finish" : text;
}

std::string draw_step(std::size_t index, const Step& step) {
  std::string route = fmt::format("b{}", step.block);
  if (step.kind != StepKind::copy)
    route += fmt::format(" {} {}", step.kind == StepKind::send ? "->" : "<-", step.peer);
  const std::string after = step.after < 0 ? std::string() : fmt::format("after {}", step.after);
  return fmt::format("  {:>4}  {:<14}{:<12}{}\n", index, route, after, effect(step));
}

}  // namespace

std::string describe_step(const std::vector<Step>& steps, std::int32_t index) {
  const Step& step = steps[static_cast<std::size_t>(index)];
  std::string text = fmt::format("step {} ({} block {}", index, step_kind_name(step.kind), step.block);
  if (step.kind != StepKind::copy) {
    text += fmt::format(" {} rank {}", step.kind == StepKind::send ? "to" : "from", step.peer);
  }
  return text + ")";
}

std::string draw_plan(const Plan& plan) {
  std::string text =
      fmt::format("{} {}: ranks {}, lanes {}, blocks {} per lane", operation_name(plan.operation()),
                  plan.algorithm(), plan.ranks(), plan.lanes(), plan.blocks());
  if (plan.operation() == Operation::broadcast) text += fmt::format(", root {}", plan.root());
  text += "\n";
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    for (int lane = 0; lane < plan.lanes(); ++lane) {
      text +=
          plan.lanes() == 1 ? fmt::format("rank {}\n", rank) : fmt::format("rank {} lane {}\n", rank, lane);
      const std::vector<Step>& steps = plan.steps(rank, lane);
      for (std::size_t i = 0; i < steps.size(); ++i) text += draw_step(i, steps[i]);
    }
  }
  return text;
}

}  // namespace slipring::collectives
