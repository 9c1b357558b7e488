// Selector: which path an operation takes, and why. Pure: the same arguments give every rank the same answer,
// which the ranks rely on (and check, by the fingerprint).
//
// In this order: the configuration's key for the operation, the first rule of the tuning file that fits, the built-in table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "collectives/plan.h"
#include "collectives/tuning_table.h"
#include "slipring/status.h"

namespace slipring::collectives {

/// How an operation is executed. The number is part of the fingerprint.
enum class Path : std::uint8_t {
  one_shot = 0,   ///< all_reduce: publish, read all
  two_phase = 1,  ///< all_reduce: reduce-scatter + all-gather through staging slots; all others: direct
  plan = 2,       ///< by the executor over channels
  levels = 3,     ///< inside the node's domains, between them, and inside again
};

struct PathChoice {
  Path path = Path::two_phase;
  std::string_view algorithm;  ///< name as in configuration and tables; static
};

/// What a name in configuration or a tuning file stands for; nullopt if the operation has nothing of that name.
std::optional<PathChoice> choice_named(Operation operation, std::string_view name) noexcept;
/// All names that the operation has, for messages.
std::string choices_text(Operation operation);

class Selector {
 public:
  /// `one_shot_max_bytes`: what the boxes of this group hold. `domains`: of the node's hierarchy, that the ranks are in.
  Selector(const base::ConfigValues& config, int ranks, std::size_t one_shot_max_bytes, int domains = 1,
           std::shared_ptr<const TuningTable> tuning = nullptr);

  PathChoice all_reduce(std::size_t bytes) const noexcept {
    if (special_[0]) [[unlikely]] return choose(Operation::all_reduce, bytes);
    return bytes <= one_shot_max_bytes_ ? PathChoice{Path::one_shot, "one_shot"} : PathChoice{Path::two_phase, "two_phase"};
  }
  /// `bytes` as slipring-perf counts them for the operation.
  PathChoice choose(Operation operation, std::size_t bytes) const noexcept;
  /// One sentence on the choice for `bytes`.
  std::string why(Operation operation, std::size_t bytes) const;

 private:
  const TuningRule* rule_for(Operation operation, std::size_t bytes) const noexcept;
  PathChoice possible(PathChoice wanted, std::size_t bytes) const noexcept;
  bool follows_levels(Operation operation) const noexcept;

  std::size_t one_shot_max_bytes_;
  int ranks_;
  int domains_;
  std::shared_ptr<const TuningTable> tuning_;
  std::vector<TuningRule> rules_;                     // that fit the number of ranks
  std::optional<PathChoice> forced_[kOperationCount];  // by configuration
  bool special_[kOperationCount] = {};                // anything but the built-in choice may apply
};

}  // namespace slipring::collectives
