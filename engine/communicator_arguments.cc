// What the arguments of the operations that move blocks, and of messages, must fulfil, apart from the communicator's state.
// Blocking calls check when they run, asynchronous ones when they are called, perhaps while a thread runs others: so nothing
// here reads what an operation changes.
#include <algorithm>
#include <numeric>

#include "base/status.h"
#include "engine/communicator_impl.h"

namespace slipring::engine {

using collectives::Fingerprint;

namespace {

std::size_t total_of(std::span<const std::size_t> counts) noexcept {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

/// For offsets before the type has been checked.
std::size_t element_of(DType dtype) noexcept { return static_cast<unsigned>(dtype) < kDTypeCount ? dtype_bytes(dtype) : 1; }

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) noexcept {
  const auto x = reinterpret_cast<std::uintptr_t>(a), y = reinterpret_cast<std::uintptr_t>(b);
  return a_bytes != 0 && b_bytes != 0 && x < y + b_bytes && y < x + a_bytes;
}

}  // namespace

Status CommunicatorImpl::check_operands(const Operand& in, const Operand& out, DType dtype, std::size_t own_offset, int root) const {
  if (static_cast<unsigned>(dtype) >= kDTypeCount)
    return base::error(StatusCode::invalid_argument, "dtype number {} is unknown", static_cast<int>(dtype));
  if (root < 0 || root >= size()) return base::error(StatusCode::invalid_argument, "root {} is not one of {} ranks", root, size());
  for (const Operand* buffer : {&in, &out}) {
    const char* const name = buffer == &in ? "input" : "output";
    if (buffer->count >= Fingerprint::kMaxCount)
      return base::error(StatusCode::invalid_argument, "{}: count {} exceeds {}; was it negative?", name, buffer->count,
                         Fingerprint::kMaxCount - 1);
    if (buffer->count != 0 && buffer->data == nullptr)
      return base::error(StatusCode::invalid_argument, "{} buffer is null, count {}", name, buffer->count);
  }
  const std::size_t in_bytes = in.count * dtype_bytes(dtype), out_bytes = out.count * dtype_bytes(dtype);
  if (!overlap(in.data, in_bytes, out.data, out_bytes)) return {};
  // In place: the smaller of the two is this rank's block of the larger.
  const bool in_is_block = in_bytes <= out_bytes;
  const auto* larger = static_cast<const std::byte*>(in_is_block ? out.data : in.data);
  if ((in_is_block ? in.data : out.data) == larger + own_offset) return {};
  return base::error(StatusCode::invalid_argument, "input of {} bytes and output of {} bytes overlap, and not as this rank's own "
                     "block, {} bytes from the beginning", in_bytes, out_bytes, own_offset);
}

/// In place along another dimension than 0 a block's rows would lie between those of others.
Status CommunicatorImpl::check_in_place(const Operand& in, const Operand& out, DType dtype, const BlockShape& shape) const {
  if (shape.outer <= 1 || size_ == 1 || !overlap(in.data, in.count * dtype_bytes(dtype), out.data, out.count * dtype_bytes(dtype)))
    return {};
  return base::error(StatusCode::invalid_argument, "in place works along dimension 0 only");
}

Status CommunicatorImpl::check_counts(std::span<const std::size_t> counts, std::string_view name) const {
  if (counts.size() != static_cast<std::size_t>(size_))
    return base::error(StatusCode::invalid_argument, "{} has {} entries for {} ranks", name, counts.size(), size_);
  std::size_t total = 0;
  for (const std::size_t count : counts)
    if (__builtin_add_overflow(total, count, &total) || total >= Fingerprint::kMaxCount)
      return base::error(StatusCode::invalid_argument, "{} add up to more than {}; was one negative?", name, Fingerprint::kMaxCount - 1);
  return {};
}

Status CommunicatorImpl::check_reduction(DType dtype, ReduceOp op) const {
  if (static_cast<unsigned>(dtype) >= kDTypeCount || static_cast<unsigned>(op) >= kReduceOpCount)
    return base::error(StatusCode::invalid_argument, "dtype number {} or operator number {} is unknown", static_cast<int>(dtype),
                       static_cast<int>(op));
  if (is_reducible(dtype)) return {};
  return base::error(StatusCode::unsupported, "{} is carried but not reduced; {}", dtype_name(dtype),
                     dtype == DType::boolean ? "reduce the same bytes as u8, with max for any and min for all"
                                             : "convert to f16, bf16 or f32 and reduce that");
}

Status CommunicatorImpl::check_reduce(const void* in, const void* out, std::size_t count, DType dtype, ReduceOp op, int root) const {
  if (Status s = check_reduction(dtype, op); !s) return std::move(s).with("reduce");
  return check_operands({in, count}, {out, root == rank() ? count : 0}, dtype, 0, root).with("reduce");
}

Status CommunicatorImpl::check_all_gather(const void* in, const void* out, const BlockShape& shape, DType dtype) const {
  const Operand one{in, shape.count()}, all{out, shape.count() * static_cast<std::size_t>(size_)};
  Status s = check_operands(one, all, dtype, static_cast<std::size_t>(rank()) * shape.inner * element_of(dtype), 0);
  if (s.is_ok()) s = check_in_place(one, all, dtype, shape);
  return std::move(s).with("all_gather");
}

Status CommunicatorImpl::check_all_gatherv(const void* in, const void* out, std::span<const std::size_t> counts, DType dtype) const {
  if (Status s = check_counts(counts, "counts"); !s) return std::move(s).with("all_gatherv");
  const auto me = static_cast<std::size_t>(rank());
  return check_operands({in, counts[me]}, {out, total_of(counts)}, dtype, total_of(counts.first(me)) * element_of(dtype), 0)
      .with("all_gatherv");
}

Status CommunicatorImpl::check_reduce_scatter(const void* in, const void* out, const BlockShape& shape, DType dtype, ReduceOp op) const {
  const Operand all{in, shape.count() * static_cast<std::size_t>(size_)}, one{out, shape.count()};
  Status s = check_reduction(dtype, op);
  if (s.is_ok()) s = check_operands(all, one, dtype, static_cast<std::size_t>(rank()) * shape.inner * element_of(dtype), 0);
  if (s.is_ok()) s = check_in_place(all, one, dtype, shape);
  return std::move(s).with("reduce_scatter");
}

Status CommunicatorImpl::check_reduce_scatterv(const void* in, const void* out, std::span<const std::size_t> counts, DType dtype,
                                               ReduceOp op) const {
  if (Status s = check_counts(counts, "counts"); !s) return std::move(s).with("reduce_scatterv");
  if (Status s = check_reduction(dtype, op); !s) return std::move(s).with("reduce_scatterv");
  const auto me = static_cast<std::size_t>(rank());
  return check_operands({in, total_of(counts)}, {out, counts[me]}, dtype, total_of(counts.first(me)) * element_of(dtype), 0)
      .with("reduce_scatterv");
}

Status CommunicatorImpl::check_gather(const void* in, const void* out, const BlockShape& shape, DType dtype, int root) const {
  const Operand one{in, shape.count()}, all{out, root == rank() ? shape.count() * static_cast<std::size_t>(size_) : 0};
  Status s = check_operands(one, all, dtype, static_cast<std::size_t>(rank()) * shape.inner * element_of(dtype), root);
  if (s.is_ok()) s = check_in_place(one, all, dtype, shape);
  return std::move(s).with("gather");
}

Status CommunicatorImpl::check_gatherv(const void* in, std::size_t count, const void* out, std::span<const std::size_t> counts,
                                       DType dtype, int root) const {
  const bool is_root = root == rank();
  const auto me = static_cast<std::size_t>(rank());
  if (is_root)
    if (Status s = check_counts(counts, "counts"); !s) return std::move(s).with("gatherv");
  return check_operands({in, count}, {out, is_root ? total_of(counts) : 0}, dtype,
                        is_root ? total_of(counts.first(me)) * element_of(dtype) : 0, root).with("gatherv");
}

Status CommunicatorImpl::check_scatter(const void* in, const void* out, std::size_t count, DType dtype, int root) const {
  const std::size_t whole = root == rank() ? count * static_cast<std::size_t>(size_) : 0;
  return check_operands({in, whole}, {out, count}, dtype, static_cast<std::size_t>(rank()) * count * element_of(dtype), root)
      .with("scatter");
}

Status CommunicatorImpl::check_scatterv(const void* in, std::span<const std::size_t> counts, const void* out, std::size_t count,
                                        DType dtype, int root) const {
  const bool is_root = root == rank();
  const auto me = static_cast<std::size_t>(rank());
  if (is_root)
    if (Status s = check_counts(counts, "counts"); !s) return std::move(s).with("scatterv");
  return check_operands({in, is_root ? total_of(counts) : 0}, {out, count}, dtype,
                        is_root ? total_of(counts.first(me)) * element_of(dtype) : 0, root).with("scatterv");
}

Status CommunicatorImpl::check_all_to_all(const void* in, const void* out, std::size_t count, DType dtype) const {
  const std::size_t whole = count * static_cast<std::size_t>(size_);
  return check_operands({in, whole}, {out, whole}, dtype, 0, 0).with("all_to_all");
}

Status CommunicatorImpl::check_all_to_allv(const void* in, std::span<const std::size_t> in_counts, const void* out,
                                           std::span<const std::size_t> out_counts, DType dtype) const {
  if (Status s = check_counts(in_counts, "in_counts"); !s) return std::move(s).with("all_to_allv");
  if (Status s = check_counts(out_counts, "out_counts"); !s) return std::move(s).with("all_to_allv");
  return check_operands({in, total_of(in_counts)}, {out, total_of(out_counts)}, dtype, SIZE_MAX, 0).with("all_to_allv");
}

Status CommunicatorImpl::check_message(const void* buffer, std::size_t bytes, int peer, std::string_view call) const {
  if (!is_peer(peer)) return refuse_peer(peer, call);
  if (buffer == nullptr && bytes != 0)
    return base::error(StatusCode::invalid_argument, "{}: buffer is null, {} bytes", call, bytes);
  return {};
}

}  // namespace slipring::engine
