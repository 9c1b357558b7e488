// FaultPoint: makes one rank die, exit or stop at a chosen operation and chunk, so that tests can show what the
// others do. Part of the product, off by default; unarmed it costs one predictable branch.
#pragma once

#include <cstdint>
#include <string_view>

#include "slipring/status.h"

namespace slipring::base {

class FaultPoint {
 public:
  FaultPoint() = default;
  /// `text` is the value of test.fault: "" or "ACTION rank R op K [chunk J]", ACTION kill, exit or stop; K counts the
  /// communicator's operations from 1. `start` is where the caller's operation counter begins.
  static Result<FaultPoint> parse(std::string_view text, int own_rank, std::uint64_t start);

  bool armed() const noexcept { return armed_; }

  void at(std::uint64_t operation, std::uint64_t chunk) const {
    if (armed_) [[unlikely]] strike(operation, chunk);
  }

 private:
  enum class Action : std::uint8_t { kill, exit, stop };
  [[gnu::cold]] void strike(std::uint64_t operation, std::uint64_t chunk) const;

  bool armed_ = false;
  Action action_ = Action::kill;
  std::uint64_t operation_ = 0;
  std::uint64_t chunk_ = 0;
};

}  // namespace slipring::base
