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

namespace {

// The operations that move blocks; `algorithm` tells their forms apart (engine/communicator_exchange.cc).
std::string exchange_text(const Fingerprint& f) {
  const bool rooted = f.operation == Operation::gather || f.operation == Operation::scatter;
  const bool reduces = f.operation == Operation::reduce_scatter;
  const std::string_view name = operation_name(f.operation), dtype = dtype_name(f.dtype);
  const std::string op = reduces ? fmt::format(" {}", reduce_op_name(f.op)) : "";
  const std::string root = rooted ? fmt::format(" with root {}", f.root) : f.root > 1 ? fmt::format(" in {} rows", f.root) : "";
  if (f.algorithm == 0) return fmt::format("{} of {} {}{} per rank{}", name, f.count, dtype, op, root);
  if (f.algorithm == 1 && f.count != 0) return fmt::format("{}v of {}{} with counts of digest {:x}", name, dtype, op, f.count);
  return fmt::format("{}v of {}{}", name, dtype, root);
}

}  // namespace

std::string Fingerprint::to_string() const {
  if (leaves) return "close";
  switch (operation) {
    case Operation::all_reduce:
      return fmt::format("all_reduce of {} {} {} (path {})", count, dtype_name(dtype), reduce_op_name(op), algorithm);
    case Operation::broadcast:
      return fmt::format("broadcast of {} {} from root {} (path {})", count, dtype_name(dtype), root, algorithm);
    case Operation::reduce:
      return fmt::format("reduce of {} {} {} to root {}", count, dtype_name(dtype), reduce_op_name(op), root);
    case Operation::barrier: break;
    default: return exchange_text(*this);
  }
  return std::string(operation_name(operation));
}

}  // namespace slipring::collectives
