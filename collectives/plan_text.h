// Plans as text: for people, for error messages and for slipring-info. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/plan.h"

namespace slipring::collectives {

/// "step 3 (send block 1 to rank 2)"
std::string describe_step(const std::vector<Step>& steps, std::int32_t index);

/// The whole plan, one list of steps per rank and lane:
///   all_reduce ring: 2 ranks, lanes 1, blocks 2 per lane
///   rank 0
///      0  b0 -> 1                 send input
///      1  b1 <- 1  after 0        output = input op message, finish
std::string draw_plan(const Plan& plan);

}  // namespace slipring::collectives
