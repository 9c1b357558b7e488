// Plan checker: proves by symbolic execution that a plan does what its operation promises.
//
// check_plan proves, for every chunk count it is given, in place and out of place, each lane on its own:
//   form      every field is in range; `after` names an earlier step of the block and the other cursor
//   channels  the k-th message sent to a rank on a lane is the k-th that it receives, of the same block
//   hazards   for every pair of steps that touch the same memory from different cursors, the order of the
//             list holds under every timing (vector clocks over list order, `after`, and messages; that a
//             channel had room again gives no order)
//   progress  all cursors reach their end on channels that hold one message
//   contents  each output block is the expression that the operation asks for, over each rank's input once,
//             the same tree on all ranks, finished once
//
// Why a few schedules are enough. A cursor is sequential and deterministic, a channel has one producer and
// one consumer, and what enables a cursor (a message, room, a passed `after`) stays true until that cursor
// itself moves: no event can disable another. Such a network reaches the same end in every order, or gets
// stuck in every order, and more room only enables more. Contents then depend on timing only through hazards,
// which are excluded by clocks and not by schedules. The adversarial schedules (fair, last enabled first from
// either end, random) test this argument.
//
// Pure functions, any thread; memory grows with ranks squared times chunks. Meant for tests and tools.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/plan.h"

namespace slipring::collectives {

enum class PlanFault : std::uint8_t {
  none,
  malformed,        ///< a step breaks a rule of form
  unmatched,        ///< a channel's sends and receives differ in number
  wrong_block,      ///< a channel's sends and receives differ in blocks
  deadlock,         ///< some cursors can never move on
  read_too_early,   ///< hazard: a send may read before the step whose result it needs
  write_too_early,  ///< hazard: a step may overwrite what an earlier send has still to read
  undefined_read,   ///< an output block is used that no step has written
  counted_twice,    ///< a reduction combines the same input twice
  wrong_content,    ///< an output block ends with other contributions than the operation asks for
  wrong_order,      ///< ranks end with different orders of reduction
  wrong_finish,     ///< a value is not finished exactly once, or reduced after it was finished
};
std::string_view plan_fault_name(PlanFault fault) noexcept;

struct PlanCheck {
  PlanFault fault = PlanFault::none;
  std::string text;  ///< where and why; empty if ok

  bool ok() const noexcept { return fault == PlanFault::none; }
};

struct PlanCheckOptions {
  int window = 4;
  /// Chunks of each block; empty: 1, window-1, window, window+1 and 3 window.
  std::vector<std::size_t> chunks_per_block = {};
  /// For each of these also a run in which half of the blocks have one chunk less (none, if they had one).
  bool uneven = true;
  int random_schedules = 3;
  std::uint64_t seed = 1;
};

/// The first fault found, or ok. The plan must hold the steps of all ranks.
PlanCheck check_plan(const Plan& plan, const PlanCheckOptions& options = {});

}  // namespace slipring::collectives
