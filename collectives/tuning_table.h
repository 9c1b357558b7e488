// TuningTable: measured choices, read from a file, that come before the built-in ones.
//
//   [[rule]]
//   operation = "all_reduce"
//   ranks = [2, 8]            # from, to; or one number; any if left out
//   bytes = [0, 65536]        # from, to, both included; any if left out
//   algorithm = "ring"
//
// The first rule that fits wins. Immutable once loaded; any thread. The file is untrusted: its size and the number of rules
// are bounded, and what is not understood is an error with its line, never skipped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/plan.h"
#include "slipring/status.h"

namespace slipring::collectives {

struct TuningRule {
  Operation operation = Operation::all_reduce;
  int ranks_from = 1, ranks_to = std::numeric_limits<int>::max();
  std::size_t bytes_from = 0, bytes_to = std::numeric_limits<std::size_t>::max();
  std::string algorithm;  ///< a name that the operation has
  int line = 0;
};

class TuningTable {
 public:
  /// An empty path is an empty table.
  static Result<std::shared_ptr<const TuningTable>> load(const std::string& path);
  /// `name` stands for the file in errors.
  static Result<std::shared_ptr<const TuningTable>> parse(std::string_view text, const std::string& name);

  const std::string& path() const noexcept { return path_; }
  const std::vector<TuningRule>& rules() const noexcept { return rules_; }
  /// Of the text: ranks that choose together must have read the same.
  std::uint64_t digest() const noexcept { return digest_; }

 private:
  std::string path_;
  std::vector<TuningRule> rules_;
  std::uint64_t digest_ = 0;
};

}  // namespace slipring::collectives
