// Plans as drawings: ranks are columns, rounds go down, each message is an arrow, labelled with its block. Pure; any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "collectives/plan.h"

namespace slipring::collectives {

/// The round in which each step of one lane happens if every message takes one round and nothing else takes time:
/// rounds[rank][step]. The plan must pass check_plan.
std::vector<std::vector<int>> plan_rounds(const Plan& plan, int lane);

/// Lane 0 as an SVG document. `node_of_rank` (empty: one node) sets nodes apart; arrows between them are drawn thicker.
std::string draw_plan_svg(const Plan& plan, std::span<const int> node_of_rank = {});

}  // namespace slipring::collectives
