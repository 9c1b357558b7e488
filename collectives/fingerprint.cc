#include "collectives/fingerprint.h"

#include <fmt/format.h>

namespace slipring::collectives {

Fingerprint Fingerprint::unpack(std::uint64_t bits) noexcept {
  Fingerprint f;
  f.leaves = bits >> 59 == 31;
  f.operation = f.leaves ? Operation::barrier : static_cast<Operation>(bits >> 59);
  f.algorithm = static_cast<std::uint8_t>(bits >> 57 & 3);
  f.dtype = static_cast<DType>(bits >> 53 & 15);
  f.op = static_cast<ReduceOp>(bits >> 50 & 7);
  f.root = static_cast<std::uint16_t>(bits >> 38 & 4095);
  f.count = bits & (kMaxCount - 1);
  return f;
}

std::string Fingerprint::to_string() const {
  if (leaves) return "close";
  switch (operation) {
    case Operation::all_reduce:
      return fmt::format("all_reduce of {} {} {} (path {})", count, dtype_name(dtype), reduce_op_name(op), algorithm);
    case Operation::broadcast:
      return fmt::format("broadcast of {} {} from root {} (path {})", count, dtype_name(dtype), root, algorithm);
    case Operation::barrier: break;
  }
  return std::string(operation_name(operation));
}

}  // namespace slipring::collectives
