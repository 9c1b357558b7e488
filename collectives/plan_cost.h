// Alpha-beta cost of a plan: studies thousands of ranks on paper. Pure, any thread, no failure.
//
// A message of b bytes keeps its sending cursor busy for alpha_us + b * beta_us_per_byte and has arrived when
// that is over; a receiving cursor spends gamma_us_per_byte on each byte that it reduces or copies. Channels
// have room without end, links are not shared, and each rank's two cursors run side by side (the two
// directions of a link).
#pragma once

#include <cstddef>
#include <span>

#include "collectives/plan.h"

namespace slipring::collectives {

struct LinkModel {
  double alpha_us = 1.0;
  double beta_us_per_byte = 1e-4;  ///< 10 GB/s
  double gamma_us_per_byte = 0;
  // Between nodes; every message has its link to itself here, too.
  double node_alpha_us = 10.0;
  double node_beta_us_per_byte = 1e-3;
};

struct PlanCost {
  double time_us = 0;               ///< when the last cursor of the last rank is done
  std::size_t messages = 0;         ///< of all ranks
  std::size_t bytes = 0;            ///< in these messages
  std::size_t most_sent_bytes = 0;  ///< by one rank
  std::size_t node_bytes = 0;       ///< that leave the node of their sender
  std::size_t most_node_bytes = 0;  ///< that leave one node
};

/// Cost of one operation on `count` elements of `element_bytes`, counted as slipring-perf does. The plan must pass
/// check_plan. `node_of_rank` empty: all on one node.
PlanCost plan_cost(const Plan& plan, std::size_t count, std::size_t element_bytes, std::size_t chunk_bytes,
                   int window, const LinkModel& link, std::span<const int> node_of_rank = {});

}  // namespace slipring::collectives
