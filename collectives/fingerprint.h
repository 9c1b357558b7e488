// Fingerprint: what a rank was asked to do, in 64 bits, so that ranks that disagree find out at the first line
// they exchange, and can say how.
#pragma once

#include <cstdint>
#include <string>

#include "collectives/plan.h"
#include "slipring/types.h"

namespace slipring::collectives {

struct Fingerprint {
  bool leaves = false;  ///< no operation: the rank closes the communicator
  Operation operation = Operation::barrier;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  std::uint8_t algorithm = 0;  ///< number of the path: ranks on different paths would wait for each other
  std::uint16_t root = 0;
  std::uint64_t count = 0;     ///< below kMaxCount

  static constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 38;

  /// Exact up to kMaxCount elements and 4096 ranks.
  constexpr std::uint64_t pack() const noexcept {
    return std::uint64_t{leaves ? 31u : static_cast<unsigned>(operation)} << 59 | std::uint64_t{algorithm & 3u} << 57 |
           std::uint64_t{static_cast<std::uint8_t>(dtype)} << 53 | std::uint64_t{static_cast<std::uint8_t>(op)} << 50 |
           std::uint64_t{root & 4095u} << 38 | (count & (kMaxCount - 1));
  }
  static Fingerprint unpack(std::uint64_t bits) noexcept;
  /// e.g. "all_reduce of 256 f32 sum (one_shot)"
  std::string to_string() const;
};

}  // namespace slipring::collectives
