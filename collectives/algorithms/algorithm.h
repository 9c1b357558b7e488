// Algorithm: a named function from a group of ranks to a Plan. One file per algorithm, one row in
// algorithms.def.
//
//   const Algorithm* ring = find_algorithm(Operation::all_reduce, "ring");
//   Plan plan = ring->build({.ranks = 8, .lanes = 2});
//
// Building allocates and belongs to set-up, or to the first use of a size class; plans are then kept and
// reused. All functions are pure and safe from any thread. A PlanRequest must pass valid_request; building
// then does not fail.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "collectives/plan.h"
#include "slipring/status.h"

namespace slipring::collectives {

struct PlanRequest {
  int ranks = 1;
  int root = 0;
  /// Schedules side by side, each with its own channels.
  int lanes = 1;
  /// Node of each rank, to keep neighbours of a ring on one node; empty: all on one.
  std::span<const int> node_of_rank = {};
  /// Build the steps of this rank alone, for its executor; -1 builds all of them, as the checker needs.
  int only_rank = -1;

  bool wants(int rank) const noexcept { return only_rank < 0 || only_rank == rank; }
};

/// invalid_argument with the field and its value if the request makes no sense.
Status valid_request(const PlanRequest& request);

struct Algorithm {
  Operation operation;
  std::string_view name;
  std::string_view description;  ///< one line, for lists
  Plan (*build)(const PlanRequest& request);
};

std::span<const Algorithm> algorithms() noexcept;
/// nullptr if there is none of that name.
const Algorithm* find_algorithm(Operation operation, std::string_view name) noexcept;

/// A ring through all ranks for one lane: ranks sorted by node, so that each node is entered and left once.
/// Odd lanes run backwards and so use the other direction of every link.
class RingOrder {
 public:
  RingOrder(const PlanRequest& request, int lane);
  int size() const noexcept { return static_cast<int>(rank_at_.size()); }
  /// `place` may be any number, also negative: the ring is closed.
  int rank_at(int place) const noexcept { return rank_at_[static_cast<std::size_t>(wrap(place))]; }
  int place_of(int rank) const noexcept { return place_of_[static_cast<std::size_t>(rank)]; }
  int wrap(int place) const noexcept { return ((place % size()) + size()) % size(); }

 private:
  std::vector<int> rank_at_;
  std::vector<int> place_of_;
};

}  // namespace slipring::collectives
