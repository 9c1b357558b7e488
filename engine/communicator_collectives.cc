// Data path of the communicator's collectives: check, choose the path, run it.
#include <cstring>

#include "base/log.h"
#include "base/status.h"
#include "engine/communicator_impl.h"

namespace slipring::engine {

using collectives::Fingerprint;
using collectives::Operation;
using collectives::Path;

namespace {

bool overlap_partially(const void* in, const void* out, std::size_t bytes) noexcept {
  const auto a = reinterpret_cast<std::uintptr_t>(in), b = reinterpret_cast<std::uintptr_t>(out);
  return a != b && (a < b ? b - a : a - b) < bytes;
}

// All that refuse_all_reduce explains, in few instructions: a small all_reduce takes less time than a Status.
bool valid_buffers(const void* in, const void* out, std::size_t count, DType dtype) noexcept {
  return count < Fingerprint::kMaxCount && (count == 0 || (in != nullptr && out != nullptr)) &&
         !overlap_partially(in, out, count * dtype_bytes(dtype));
}
bool valid_all_reduce(const void* in, const void* out, std::size_t count, DType dtype, ReduceOp op) noexcept {
  return is_reducible(dtype) && static_cast<unsigned>(op) < kReduceOpCount && valid_buffers(in, out, count, dtype);
}

}  // namespace

Status CommunicatorImpl::check_process() const {
  if (generation_ == base::fork_generation()) [[likely]] return {};
  return base::error(StatusCode::invalid_argument, "this process is a forked child of rank {}; only the parent may use its "
                     "communicator, start ranks with exec instead", rank());
}

Status CommunicatorImpl::check_usable() const {
  if (usable()) [[likely]] return {};
  if (Status s = check_process(); !s) return s;
  if (!failure_.is_ok()) return failure_;
  if (group_->poisoned()) return group_->interrupted();
  return check_open();
}

Status CommunicatorImpl::check_open() const {
  if (!closed_) [[likely]] return {};
  return base::error(StatusCode::closed, "rank {} has closed this communicator", rank());
}

Status CommunicatorImpl::check_all_reduce(const void* in, const void* out, std::size_t count, DType dtype, ReduceOp op) const {
  if (valid_all_reduce(in, out, count, dtype, op)) return {};
  Status s = check_reduction(dtype, op);
  return (s.is_ok() ? refuse_buffers(in, out, count, dtype) : std::move(s)).with("all_reduce");
}

Status CommunicatorImpl::check_broadcast(const void* buffer, std::size_t count, DType dtype, int root) const {
  if (static_cast<unsigned>(dtype) >= kDTypeCount)
    return base::error(StatusCode::invalid_argument, "dtype number {} is unknown; broadcast", static_cast<int>(dtype));
  if (!valid_buffers(buffer, buffer, count, dtype)) return refuse_buffers(buffer, buffer, count, dtype).with("broadcast");
  if (root < 0 || root >= size())
    return base::error(StatusCode::invalid_argument, "broadcast: root {} is not one of {} ranks", root, size());
  return {};
}

Status CommunicatorImpl::refuse_all_reduce(const void* in, const void* out, std::size_t count, DType dtype, ReduceOp op) const {
  if (Status s = check_usable(); !s) return std::move(s).with("all_reduce");
  return check_all_reduce(in, out, count, dtype, op);
}

Status CommunicatorImpl::refuse_buffers(const void* in, const void* out, std::size_t count, DType dtype) const {
  if (count >= Fingerprint::kMaxCount)
    return base::error(StatusCode::invalid_argument, "count {} exceeds {}; was it negative?", count,
                       Fingerprint::kMaxCount - 1);
  if (in == nullptr || out == nullptr)
    return base::error(StatusCode::invalid_argument, "{} buffer is null, count {}", in ? "output" : "input", count);
  return base::error(StatusCode::invalid_argument, "input and output of {} bytes overlap partially; pass the same pointer "
                     "twice for in place", count * dtype_bytes(dtype));
}

Status CommunicatorImpl::all_reduce_alone(const void* in, void* out, std::size_t count, DType dtype) {
  if (in != out && count != 0) std::memcpy(out, in, count * dtype_bytes(dtype));
  return {};
}

Status CommunicatorImpl::all_reduce_divided(const void* in, void* out, std::size_t count, DType dtype, ReduceOp op, int divisor) {
  if (!usable() || !valid_all_reduce(in, out, count, dtype, op)) [[unlikely]]
    return refuse_all_reduce(in, out, count, dtype, op);
  counters_.operations.add(1);
  if (size_ == 1) [[unlikely]] return all_reduce_alone(in, out, count, dtype);
  const std::size_t element = dtype_bytes(dtype);
  const std::size_t bytes = count * element;
  counters_.bytes_in.add(bytes);
  const collectives::PathChoice choice = selector_.all_reduce(bytes);
  const Fingerprint fingerprint{.operation = Operation::all_reduce, .dtype = dtype, .op = op,
                                .algorithm = static_cast<std::uint8_t>(choice.path), .count = count};
  if (choice.path == Path::plan && (op != ReduceOp::avg || divisor == size_)) {  // an executor divides by its own ranks
    return settle(run_plan(choice.algorithm, 0, Operation::all_reduce,
                           {.in = in, .out = out, .count = count, .dtype = dtype, .op = op}, fingerprint.pack()));
  }
  const collectives::ReduceRequest request{.in = in, .out = out, .count = count, .element_bytes = element,
                                           .kernel = kernels_.of(dtype, op), .divisor = divisor,
                                           .fingerprint = fingerprint.pack()};
  if (choice.path == Path::one_shot) {
    counters_.one_shot_ops.add(1);
    return settle(direct_.all_reduce_one_shot(request));
  }
  if (choice.path == Path::levels) {
    counters_.level_ops.add(1);
    return settle(all_reduce_by_levels(in, out, count, dtype, op, divisor));
  }
  counters_.two_phase_ops.add(1);
  return settle(direct_.all_reduce_two_phase(request));
}

Status CommunicatorImpl::broadcast(void* buffer, std::size_t count, DType dtype, int root) {
  if (Status s = check_usable(); !s) return std::move(s).with("broadcast");
  if (Status s = check_broadcast(buffer, count, dtype, root); !s) return s;
  counters_.operations.add(1);
  counters_.broadcasts.add(1);
  if (size() == 1) return {};
  const collectives::PathChoice choice = selector_.choose(Operation::broadcast, count * dtype_bytes(dtype));
  const Fingerprint fingerprint{.operation = Operation::broadcast, .dtype = dtype,
                                .algorithm = static_cast<std::uint8_t>(choice.path),
                                .root = static_cast<std::uint16_t>(root), .count = count};
  if (choice.path == Path::plan) {
    return settle(run_plan(choice.algorithm, root, Operation::broadcast,
                           {.in = buffer, .out = buffer, .count = count, .dtype = dtype}, fingerprint.pack()));
  }
  if (choice.path == Path::levels) {
    counters_.level_ops.add(1);
    return settle(broadcast_by_levels(buffer, count, dtype, root));
  }
  return settle(broadcast_direct(buffer, count * dtype_bytes(dtype), root, fingerprint.pack()));
}

Status CommunicatorImpl::barrier() {
  if (Status s = check_usable(); !s) return s;
  counters_.operations.add(1);
  counters_.barriers.add(1);
  if (size() == 1) return {};
  if (selector_.choose(Operation::barrier, 0).path == Path::levels) {
    counters_.level_ops.add(1);
    return settle(barrier_by_levels());
  }
  return settle(direct_.rendezvous(Fingerprint{.operation = Operation::barrier}.pack()));
}

Result<Selection> CommunicatorImpl::explain(std::string_view operation, std::size_t bytes) const {
  Selection selection;
  selection.transport = group_->transport();
  if (size() == 1) {
    selection.algorithm = "none";
    selection.reason = "a group of one has nothing to exchange";
    return selection;
  }
  int number = 0;
  while (number < collectives::kOperationCount && collectives::operation_name(static_cast<Operation>(number)) != operation) ++number;
  if (number == collectives::kOperationCount)
    return base::error(StatusCode::invalid_argument, "operation \"{}\" is not a collective", operation);
  const auto which = static_cast<Operation>(number);
  const collectives::PathChoice choice = selector_.choose(which, bytes);
  selection.algorithm = choice.algorithm;
  selection.chunk_bytes = choice.path == Path::plan ? static_cast<std::size_t>(config_.plan_chunk_bytes)
                          : choice.path == Path::one_shot ? bytes : group_->layout().direct.chunk_bytes;
  selection.reason = selector_.why(which, bytes);
  return selection;
}

Status CommunicatorImpl::fail(Status status) {
  switch (status.code()) {
    case StatusCode::timeout: counters_.timeouts.add(1); break;
    case StatusCode::mismatch: counters_.mismatches.add(1); break;
    case StatusCode::peer_lost: counters_.peers_lost.add(1); break;
    default: break;
  }
  if (std::string title = group_->title(); !title.empty()) status = std::move(status).with(title);
  failure_ = group_->poison(status);
  usable_ = false;
  SLIPRING_LOG(info, communicator, "rank {} fails: {}", rank(), failure_.to_string());
  return failure_;
}

}  // namespace slipring::engine
