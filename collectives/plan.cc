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
