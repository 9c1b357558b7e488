#include "collectives/selector.h"

#include <fmt/format.h>

namespace slipring::collectives {
namespace {

PathChoice named_all_reduce(const std::string& name) {
  if (name == "one_shot") return {Path::one_shot, "one_shot"};
  if (name == "ring") return {Path::plan, "ring"};
  if (name == "recursive_doubling") return {Path::plan, "recursive_doubling"};
  return {Path::two_phase, "two_phase"};
}

PathChoice named_broadcast(const std::string& name) {
  if (name == "ring") return {Path::plan, "ring"};
  if (name == "tree") return {Path::plan, "binomial_tree"};
  return {Path::two_phase, "direct"};
}

constexpr PathChoice kByLevels{Path::levels, "levels"};

}  // namespace

Selector::Selector(const base::ConfigValues& config, int ranks, std::size_t one_shot_max_bytes, int domains)
    : one_shot_max_bytes_(one_shot_max_bytes), ranks_(ranks), domains_(domains), all_reduce_forced_(config.all_reduce_algorithm != "auto"),
      all_reduce_special_(all_reduce_forced_ || domains > 1), forced_(named_all_reduce(config.all_reduce_algorithm)),
      broadcast_(named_broadcast(config.broadcast_algorithm)), broadcast_forced_(config.broadcast_algorithm != "auto") {
  if (!broadcast_forced_ && domains > 1) broadcast_ = kByLevels;
}

PathChoice Selector::special_all_reduce(std::size_t bytes) const noexcept {
  if (!all_reduce_forced_) return kByLevels;
  if (forced_.path == Path::one_shot && bytes > one_shot_max_bytes_) return {Path::two_phase, "two_phase"};
  return forced_;
}

std::string Selector::why(Operation operation, std::size_t bytes) const {
  const bool forced = operation == Operation::all_reduce ? all_reduce_forced_ : operation == Operation::broadcast && broadcast_forced_;
  const bool has_levels = operation == Operation::all_reduce || operation == Operation::reduce || operation == Operation::broadcast ||
                          operation == Operation::barrier;
  if (domains_ > 1 && has_levels && !forced)
    return fmt::format("the {} ranks lie in {} domains of the node (topology.domains), between which few lines should cross", ranks_, domains_);
  switch (operation) {
    case Operation::barrier: return "ranks of one node meet by publishing one line each";
    case Operation::broadcast:
      return broadcast_forced_ ? fmt::format("broadcast.algorithm asks for {}", broadcast_.algorithm)
                               : "all ranks are on one node and read the root's memory directly";
    case Operation::all_reduce: break;
    default: return "all ranks are on one node and read each other's blocks directly";
  }
  if (all_reduce_forced_ && forced_.path == Path::one_shot && bytes > one_shot_max_bytes_)
    return fmt::format("all_reduce.algorithm asks for one_shot, but {} bytes exceed {}, what direct.one_shot_max_bytes leaves "
                       "each of {} ranks", bytes, one_shot_max_bytes_, ranks_);
  if (all_reduce_forced_) return fmt::format("all_reduce.algorithm asks for {}", forced_.algorithm);
  return fmt::format("{} bytes {} {}, what direct.one_shot_max_bytes leaves each of {} ranks", bytes,
                     bytes <= one_shot_max_bytes_ ? "are within" : "exceed", one_shot_max_bytes_, ranks_);
}

}  // namespace slipring::collectives
