#include "collectives/selector.h"

#include <fmt/format.h>

#include "collectives/algorithms/algorithm.h"

namespace slipring::collectives {
namespace {

constexpr PathChoice kOneShot{Path::one_shot, "one_shot"}, kTwoPhase{Path::two_phase, "two_phase"}, kDirect{Path::two_phase, "direct"},
    kByLevels{Path::levels, "levels"};

bool has_levels(Operation operation) noexcept {
  return operation == Operation::all_reduce || operation == Operation::reduce || operation == Operation::broadcast ||
         operation == Operation::barrier;
}

const std::string& configured(const base::ConfigValues& config, Operation operation) noexcept {
  static const std::string automatic = "auto";
  switch (operation) {
    case Operation::all_reduce: return config.all_reduce_algorithm;
    case Operation::broadcast: return config.broadcast_algorithm;
    case Operation::reduce: return config.reduce_algorithm;
    case Operation::all_gather: return config.all_gather_algorithm;
    case Operation::reduce_scatter: return config.reduce_scatter_algorithm;
    case Operation::gather: return config.gather_algorithm;
    case Operation::scatter: return config.scatter_algorithm;
    case Operation::all_to_all: return config.all_to_all_algorithm;
    default: return automatic;
  }
}

}  // namespace

std::optional<PathChoice> choice_named(Operation operation, std::string_view name) noexcept {
  if (operation == Operation::all_reduce) {
    if (name == "one_shot") return kOneShot;
    if (name == "two_phase") return kTwoPhase;
  } else if (name == "direct") {
    return kDirect;
  }
  if (name == "levels" && has_levels(operation)) return kByLevels;
  if (operation == Operation::barrier) return std::nullopt;  // its plan is for studies
  const Algorithm* algorithm = find_algorithm(operation, name == "tree" ? "binomial_tree" : name);
  if (algorithm == nullptr) return std::nullopt;
  return PathChoice{Path::plan, algorithm->name};
}

std::string choices_text(Operation operation) {
  std::string text = operation == Operation::all_reduce ? "one_shot, two_phase" : "direct";
  if (has_levels(operation)) text += ", levels";
  if (operation == Operation::barrier) return text;
  for (const Algorithm& algorithm : algorithms())
    if (algorithm.operation == operation) text += fmt::format(", {}", algorithm.name);
  return text;
}

Selector::Selector(const base::ConfigValues& config, int ranks, std::size_t one_shot_max_bytes, int domains,
                   std::shared_ptr<const TuningTable> tuning)
    : one_shot_max_bytes_(one_shot_max_bytes), ranks_(ranks), domains_(domains), tuning_(std::move(tuning)) {
  if (tuning_)
    for (const TuningRule& rule : tuning_->rules())
      if (rule.ranks_from <= ranks && ranks <= rule.ranks_to) rules_.push_back(rule);
  for (int i = 0; i < kOperationCount; ++i) {
    const auto operation = static_cast<Operation>(i);
    if (const std::string& name = configured(config, operation); name != "auto") forced_[i] = choice_named(operation, name);
    special_[i] = forced_[i].has_value() || follows_levels(operation);
    for (const TuningRule& rule : rules_) special_[i] = special_[i] || rule.operation == operation;
  }
}

bool Selector::follows_levels(Operation operation) const noexcept { return domains_ > 1 && has_levels(operation); }

const TuningRule* Selector::rule_for(Operation operation, std::size_t bytes) const noexcept {
  for (const TuningRule& rule : rules_)
    if (rule.operation == operation && rule.bytes_from <= bytes && bytes <= rule.bytes_to) return &rule;
  return nullptr;
}

/// What is asked for, unless this group or this size cannot have it.
PathChoice Selector::possible(PathChoice wanted, std::size_t bytes) const noexcept {
  if (wanted.path == Path::one_shot && bytes > one_shot_max_bytes_) return kTwoPhase;
  if (wanted.path == Path::levels && domains_ < 2) return kTwoPhase;
  return wanted;
}

PathChoice Selector::choose(Operation operation, std::size_t bytes) const noexcept {
  const auto i = static_cast<std::size_t>(operation);
  if (special_[i]) {
    if (forced_[i]) return possible(*forced_[i], bytes);
    if (const TuningRule* rule = rule_for(operation, bytes)) return possible(*choice_named(operation, rule->algorithm), bytes);
    if (follows_levels(operation)) return kByLevels;
  }
  if (operation != Operation::all_reduce) return kDirect;
  return bytes <= one_shot_max_bytes_ ? kOneShot : kTwoPhase;
}

std::string Selector::why(Operation operation, std::size_t bytes) const {
  const auto i = static_cast<std::size_t>(operation);
  const TuningRule* rule = forced_[i] ? nullptr : rule_for(operation, bytes);
  if (forced_[i] || rule != nullptr) {
    const std::string asker = forced_[i] ? fmt::format("{}.algorithm", operation_name(operation))
                                         : fmt::format("line {} of the tuning file {}", rule->line, tuning_->path());
    const PathChoice wanted = forced_[i] ? *forced_[i] : *choice_named(operation, rule->algorithm);
    if (possible(wanted, bytes).path == wanted.path) return fmt::format("{} asks for {}", asker, wanted.algorithm);
    if (wanted.path == Path::levels) return fmt::format("{} asks for levels, but the ranks lie in one domain of the node", asker);
    return fmt::format("{} asks for one_shot, but {} bytes exceed {}, what direct.one_shot_max_bytes leaves each of {} ranks", asker, bytes,
                       one_shot_max_bytes_, ranks_);
  }
  if (follows_levels(operation))
    return fmt::format("the {} ranks lie in {} domains of the node (topology.domains), between which few lines should cross", ranks_, domains_);
  if (operation == Operation::barrier) return "ranks of one node meet by publishing one line each";
  if (operation != Operation::all_reduce) return "all ranks are on one node and read each other's blocks directly";
  return fmt::format("{} bytes {} {}, what direct.one_shot_max_bytes leaves each of {} ranks", bytes,
                     bytes <= one_shot_max_bytes_ ? "are within" : "exceed", one_shot_max_bytes_, ranks_);
}

}  // namespace slipring::collectives
