// Selector: which path an operation takes, and why. Pure: the same arguments give every rank the same answer,
// which the ranks rely on (and check, by the fingerprint).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/config.h"
#include "collectives/plan.h"
#include "slipring/status.h"

namespace slipring::collectives {

/// How an operation is executed. The number is part of the fingerprint.
enum class Path : std::uint8_t {
  one_shot = 0,   ///< all_reduce: publish, read all
  two_phase = 1,  ///< all_reduce: reduce-scatter + all-gather through staging slots; broadcast and barrier: direct
  plan = 2,       ///< by the executor over channels
  levels = 3,     ///< inside the node's domains, between them, and inside again
};

struct PathChoice {
  Path path = Path::two_phase;
  std::string_view algorithm;  ///< name as in configuration and tables; static
};

class Selector {
 public:
  /// `one_shot_max_bytes`: what the boxes of this group hold. `domains`: of the node's hierarchy, that the ranks are in.
  Selector(const base::ConfigValues& config, int ranks, std::size_t one_shot_max_bytes, int domains = 1);

  PathChoice all_reduce(std::size_t bytes) const noexcept {
    if (all_reduce_special_) [[unlikely]] return special_all_reduce(bytes);
    return bytes <= one_shot_max_bytes_ ? PathChoice{Path::one_shot, "one_shot"} : PathChoice{Path::two_phase, "two_phase"};
  }
  PathChoice broadcast() const noexcept { return broadcast_; }
  /// Whether reduce and barrier go by levels.
  bool by_levels() const noexcept { return domains_ > 1; }
  /// One sentence on the choice for `bytes`.
  std::string why(Operation operation, std::size_t bytes) const;

 private:
  PathChoice special_all_reduce(std::size_t bytes) const noexcept;

  std::size_t one_shot_max_bytes_;
  int ranks_;
  int domains_;
  bool all_reduce_forced_;
  bool all_reduce_special_;  // forced, or by levels
  PathChoice forced_;
  PathChoice broadcast_;
  bool broadcast_forced_;
};

}  // namespace slipring::collectives
