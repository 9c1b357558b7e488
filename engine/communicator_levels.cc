// Collectives by levels: inside the own domain first, between domains with as few ranks as possible, and inside again.
//
// One step of the hierarchy is two communicators: `inside_`, the ranks of the own domain, and `across_`, the ranks at the
// own index of every domain. across_ has levels of its own if the machine has more. They share the fate of this one.
// What each rank gets is a copy of what one rank computed, or was reduced in the same order everywhere, so that
// results are the same bits on all ranks. Published as XHC (Katevenis et al., "A framework for hierarchical
// single-copy MPI collectives on multicore nodes", CLUSTER 2022), here with direct paths on every level.
#include <algorithm>

#include "base/status.h"
#include "engine/communicator_impl.h"

namespace slipring::engine {
namespace {

// From here on the ranks of even domains share the work between domains; below it the leaders' one exchange is shorter.
constexpr std::size_t kRailBytes = 32 * 1024;

/// Elements of each of n blocks of whole cache lines.
std::vector<std::size_t> blocks_of(std::size_t count, std::size_t n, std::size_t element) {
  const std::size_t line = std::max<std::size_t>(1, 64 / element);
  const std::size_t each = ((count + n - 1) / n + line - 1) / line * line;
  std::vector<std::size_t> blocks(n);
  for (std::size_t i = 0; i < n; ++i) blocks[i] = std::min(count, (i + 1) * each) - std::min(count, i * each);
  return blocks;
}

/// Between levels averages travel as sums.
ReduceOp inner_op(ReduceOp op) noexcept { return op == ReduceOp::avg ? ReduceOp::sum : op; }

}  // namespace

Status CommunicatorImpl::form_levels() {
  if (inside_) return {};
  auto inside = create_group(split_->inside);
  if (!inside) return std::move(inside).status().with("forming the levels of the node");
  if (!split_->across.empty()) {
    auto across = create_group(split_->across);
    if (!across) return std::move(across).status().with("forming the levels of the node");
    across_ = std::move(*across);
    across_->group_->share_fate();
  }
  inside_ = std::move(*inside);
  inside_->group_->share_fate();
  return {};
}

Status CommunicatorImpl::all_reduce_by_levels(const void* in, void* out, std::size_t count, DType dtype, ReduceOp op, int divisor) {
  if (Status s = form_levels(); !s) return s;
  const std::size_t element = dtype_bytes(dtype);
  if (split_->even && count * element >= kRailBytes) {
    const std::vector<std::size_t> blocks = blocks_of(count, split_->inside.size(), element);
    std::size_t before = 0;
    for (int r = 0; r < inside_->rank(); ++r) before += blocks[static_cast<std::size_t>(r)];
    std::byte* const block = static_cast<std::byte*>(out) + before * element;
    const std::size_t mine = blocks[static_cast<std::size_t>(inside_->rank())];
    if (Status s = inside_->reduce_scatterv(in, block, blocks, dtype, inner_op(op)); !s) return s;
    if (Status s = across_->all_reduce_divided(block, block, mine, dtype, op, divisor); !s) return s;
    return inside_->all_gatherv(block, out, blocks, dtype);
  }
  if (Status s = inside_->reduce(in, out, count, dtype, inner_op(op), 0); !s) return s;
  if (is_leader())
    if (Status s = across_->all_reduce_divided(out, out, count, dtype, op, divisor); !s) return s;
  return inside_->broadcast(out, count, dtype, 0);
}

Status CommunicatorImpl::broadcast_by_levels(void* buffer, std::size_t count, DType dtype, int root) {
  if (Status s = form_levels(); !s) return s;
  const auto r = static_cast<std::size_t>(root);
  const bool with_root = split_->domain_of[r] == split_->domain_of[static_cast<std::size_t>(rank())];
  if (with_root)
    if (Status s = inside_->broadcast(buffer, count, dtype, split_->index_of[r]); !s) return s;
  if (is_leader())
    if (Status s = across_->broadcast(buffer, count, dtype, split_->domain_of[r]); !s) return s;
  return with_root ? Status() : inside_->broadcast(buffer, count, dtype, 0);
}

Status CommunicatorImpl::barrier_by_levels() {
  if (Status s = form_levels(); !s) return s;
  if (Status s = inside_->barrier(); !s) return s;
  if (is_leader())
    if (Status s = across_->barrier(); !s) return s;
  return inside_->barrier();
}

Status CommunicatorImpl::reduce_by_levels(const void* in, void* out, std::size_t count, DType dtype, ReduceOp op, int divisor, int root) {
  if (Status s = form_levels(); !s) return s;
  const auto r = static_cast<std::size_t>(root);
  // The rank of each domain that takes part between domains: the one beside the root if every domain has such a one.
  const int via = split_->even ? split_->index_of[r] : 0;
  const bool is_root = root == rank(), takes_part = inside_->rank() == via;
  const bool with_root = split_->domain_of[r] == split_->domain_of[static_cast<std::size_t>(rank())];
  void* partial = out;
  if (takes_part && !is_root) {
    scratch_.resize(std::max(scratch_.size(), count * dtype_bytes(dtype)));
    partial = scratch_.data();
  }
  if (Status s = inside_->reduce(in, partial, count, dtype, inner_op(op), via); !s) return s;
  if (takes_part)
    if (Status s = across_->reduce_divided(partial, partial, count, dtype, op, divisor, split_->domain_of[r]); !s) return s;
  if (split_->index_of[r] == via || !with_root) return {};
  if (takes_part) return inside_->send(partial, count * dtype_bytes(dtype), split_->index_of[r]);
  return is_root ? inside_->recv(out, count * dtype_bytes(dtype), via) : Status();
}

}  // namespace slipring::engine
