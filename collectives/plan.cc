#include "collectives/plan.h"

namespace slipring::collectives {

std::string_view operation_name(Operation operation) noexcept {
  switch (operation) {
    case Operation::all_reduce:
      return "all_reduce";
    case Operation::broadcast:
      return "broadcast";
    case Operation::barrier:
      return "barrier";
    case Operation::reduce:
      return "reduce";
    case Operation::all_gather:
      return "all_gather";
    case Operation::reduce_scatter:
      return "reduce_scatter";
    case Operation::gather:
      return "gather";
    case Operation::scatter:
      return "scatter";
    case Operation::all_to_all:
      return "all_to_all";
    case Operation::split:
      return "split";
  }
  return "unknown";
}

bool moves_blocks(Operation operation) noexcept {
  switch (operation) {
    case Operation::all_gather:
    case Operation::reduce_scatter:
    case Operation::gather:
    case Operation::scatter:
    case Operation::all_to_all:
      return true;
    default:
      return false;
  }
}

bool is_rooted(Operation operation) noexcept {
  return operation == Operation::broadcast || operation == Operation::reduce || operation == Operation::gather ||
         operation == Operation::scatter;
}

int blocks_of(Operation operation, int ranks) noexcept {
  if (!moves_blocks(operation)) return 0;
  return operation == Operation::all_to_all ? ranks * ranks : ranks;
}

bool has_input(Operation operation, int ranks, int root, int rank, int block) noexcept {
  switch (operation) {
    case Operation::all_gather:
    case Operation::gather:
      return block == rank;
    case Operation::scatter:
      return rank == root;
    case Operation::all_to_all:
      return block / ranks == rank;
    default:
      return true;
  }
}

bool needs_output(Operation operation, int ranks, int root, int rank, int block) noexcept {
  switch (operation) {
    case Operation::reduce:
    case Operation::gather:
      return rank == root;
    case Operation::scatter:
    case Operation::reduce_scatter:
      return block == rank;
    case Operation::all_to_all:
      return block % ranks == rank;
    default:
      return true;
  }
}

std::string_view step_kind_name(StepKind kind) noexcept {
  switch (kind) {
    case StepKind::send:
      return "send";
    case StepKind::receive:
      return "receive";
    case StepKind::receive_reduce:
      return "receive_reduce";
    case StepKind::copy:
      return "copy";
  }
  return "unknown";
}

Plan::Plan(Operation operation, std::string_view algorithm, int ranks, int root, int lanes, int blocks)
    : operation_(operation),
      algorithm_(algorithm),
      ranks_(ranks),
      root_(root),
      lanes_(lanes),
      blocks_(blocks),
      lists_(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(lanes)) {}

}  // namespace slipring::collectives
