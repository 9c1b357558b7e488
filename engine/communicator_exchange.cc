// Data path of the communicator's collectives that move blocks: check, describe who gives what to whom, run.
#include <algorithm>
#include <numeric>
#include <cstring>

#include "base/status.h"
#include "engine/communicator_impl.h"

namespace slipring::engine {

using collectives::Fingerprint;
using collectives::Operation;
using collectives::Rows;

namespace {

// The fingerprint's path field of these operations: ranks that mean different forms must not go on.
enum class Form : std::uint8_t { equal = 0, varying = 1, counts = 3 };

std::size_t largest_of(std::span<const std::size_t> counts) noexcept {
  return counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
}

// FNV-1a; ranks that pass different counts find out with the first line.
std::uint64_t digest(std::span<const std::size_t> counts) noexcept {
  std::uint64_t hash = 14695981039346656037u;
  for (const std::size_t count : counts) hash = (hash ^ count) * 1099511628211u;
  return (hash ^ hash >> 38) & (Fingerprint::kMaxCount - 1);
}

}  // namespace

/// Blocks of `shape` by rank in a whole tensor.
void CommunicatorImpl::place_blocks(std::vector<Rows>& rows, const void* whole, const BlockShape& shape, std::size_t element) const {
  const std::size_t row = shape.inner * element;
  auto* base = static_cast<std::byte*>(const_cast<void*>(whole));
  for (std::size_t r = 0; r < rows.size(); ++r)
    rows[r] = shape.count() == 0 ? Rows() : Rows{base + r * row, shape.outer * row, row, rows.size() * row};
}

/// Blocks of different counts one after the other.
void CommunicatorImpl::place_blocks(std::vector<Rows>& rows, const void* whole, std::span<const std::size_t> counts,
                                    std::size_t element) const {
  auto* base = static_cast<std::byte*>(const_cast<void*>(whole));
  for (std::size_t r = 0; r < rows.size(); ++r) {
    rows[r] = counts[r] == 0 ? Rows() : Rows::packed(base, counts[r] * element);
    if (counts[r] != 0) base += counts[r] * element;
  }
}

Status CommunicatorImpl::run_exchange(const collectives::Exchange& exchange) {
  counters_.operations.add(1);
  counters_.bytes_in.add(exchange.largest);
  if (size_ == 1) {
    const Rows& from = exchange.send[0];
    if (exchange.recv[0].bytes != 0) collectives::copy_rows(exchange.recv[0], from);
    return {};
  }
  return settle(direct_.exchange(exchange));
}

std::optional<Status> CommunicatorImpl::planned(BlockMove move) {
  if (size_ == 1) return std::nullopt;
  std::size_t elements = move.count * static_cast<std::size_t>(size_);
  if (!move.counts.empty()) elements = std::accumulate(move.counts.begin(), move.counts.end(), std::size_t{0});
  const collectives::PathChoice choice = selector_.choose(move.operation, elements * dtype_bytes(move.dtype));
  if (choice.path != collectives::Path::plan) return std::nullopt;
  const auto packed = [](const std::vector<Rows>& rows) {
    return std::all_of(rows.begin(), rows.end(), [](const Rows& r) { return r.bytes == 0 || r.is_packed(); });
  };
  if (!packed(send_) || !packed(recv_)) return std::nullopt;
  counters_.operations.add(1);
  counters_.bytes_in.add(move.count * dtype_bytes(move.dtype));
  if (!move.input) move.input = [this](int to) -> const void* { return send_[static_cast<std::size_t>(to)].base; };
  if (!move.output) move.output = [this](int from) -> void* { return recv_[static_cast<std::size_t>(from)].base; };
  return settle(run_block_plan(choice.algorithm, move));
}

Status CommunicatorImpl::broadcast_direct(void* buffer, std::size_t bytes, int root, std::uint64_t fingerprint) {
  const Rows all = bytes == 0 ? Rows() : Rows::packed(buffer, bytes);
  const bool is_root = root == rank();
  std::fill(send_.begin(), send_.end(), is_root ? all : Rows());
  std::fill(recv_.begin(), recv_.end(), Rows());
  if (!is_root) recv_[static_cast<std::size_t>(root)] = all;
  return direct_.exchange({.send = send_, .recv = recv_, .shared = true, .largest = bytes, .fingerprint = fingerprint});
}

Status CommunicatorImpl::all_gather(const void* in, void* out, const BlockShape& shape, DType dtype) {
  if (Status s = check_usable(); !s) return std::move(s).with("all_gather");
  if (Status s = check_all_gather(in, out, shape, dtype); !s) return s;
  const std::size_t count = shape.count(), element = dtype_bytes(dtype);
  std::fill(send_.begin(), send_.end(), count == 0 ? Rows() : Rows::packed(in, count * element));
  place_blocks(recv_, out, shape, element);
  const Fingerprint fingerprint{.operation = Operation::all_gather, .dtype = dtype,
                                .root = static_cast<std::uint16_t>(shape.outer % 4096), .count = count};
  if (auto done = planned({.operation = Operation::all_gather, .dtype = dtype, .count = count, .fingerprint = fingerprint.pack()})) return *done;
  return run_exchange({.send = send_, .recv = recv_, .shared = true, .largest = count * element, .fingerprint = fingerprint.pack()});
}

Status CommunicatorImpl::all_gatherv(const void* in, void* out, std::span<const std::size_t> counts, DType dtype) {
  if (Status s = check_usable(); !s) return std::move(s).with("all_gatherv");
  if (Status s = check_all_gatherv(in, out, counts, dtype); !s) return s;
  const auto me = static_cast<std::size_t>(rank());
  const std::size_t element = dtype_bytes(dtype);
  std::fill(send_.begin(), send_.end(), counts[me] == 0 ? Rows() : Rows::packed(in, counts[me] * element));
  place_blocks(recv_, out, counts, element);
  const Fingerprint fingerprint{.operation = Operation::all_gather, .dtype = dtype,
                                .algorithm = static_cast<std::uint8_t>(Form::varying), .count = digest(counts)};
  if (auto done = planned({.operation = Operation::all_gather, .dtype = dtype, .counts = counts, .fingerprint = fingerprint.pack()}))
    return *done;
  return run_exchange({.send = send_, .recv = recv_, .shared = true, .largest = largest_of(counts) * element,
                       .fingerprint = fingerprint.pack()});
}

Status CommunicatorImpl::run_reduce_scatter(void* out, std::size_t largest, DType dtype, ReduceOp op, bool uniform, std::uint64_t fingerprint) {
  const std::size_t element = dtype_bytes(dtype);
  counters_.operations.add(1);
  counters_.bytes_in.add(largest);
  if (size_ == 1) {
    if (send_[0].bytes != 0) collectives::copy_rows(Rows::packed(out, send_[0].bytes), send_[0]);
    return {};
  }
  return settle(direct_.reduce_scatter(
      {.send = send_, .recv = {}, .uniform = uniform, .largest = largest * element, .fingerprint = fingerprint},
      {.out = out, .element_bytes = element, .kernel = kernels_.of(dtype, op), .divisor = op == ReduceOp::avg ? size_ : 1}));
}

Status CommunicatorImpl::reduce_scatter(const void* in, void* out, const BlockShape& shape, DType dtype, ReduceOp op) {
  if (Status s = check_usable(); !s) return std::move(s).with("reduce_scatter");
  if (Status s = check_reduce_scatter(in, out, shape, dtype, op); !s) return s;
  const std::size_t count = shape.count();
  place_blocks(send_, in, shape, dtype_bytes(dtype));
  const Fingerprint fingerprint{.operation = Operation::reduce_scatter, .dtype = dtype, .op = op,
                                .root = static_cast<std::uint16_t>(shape.outer % 4096), .count = count};
  if (auto done = planned({.operation = Operation::reduce_scatter, .dtype = dtype, .op = op, .count = count,
                           .fingerprint = fingerprint.pack(), .output = [out](int) { return out; }}))
    return *done;
  return run_reduce_scatter(out, count, dtype, op, true, fingerprint.pack());
}

Status CommunicatorImpl::reduce_scatterv(const void* in, void* out, std::span<const std::size_t> counts, DType dtype, ReduceOp op) {
  if (Status s = check_usable(); !s) return std::move(s).with("reduce_scatterv");
  if (Status s = check_reduce_scatterv(in, out, counts, dtype, op); !s) return s;
  place_blocks(send_, in, counts, dtype_bytes(dtype));
  const Fingerprint fingerprint{.operation = Operation::reduce_scatter, .dtype = dtype, .op = op,
                                .algorithm = static_cast<std::uint8_t>(Form::varying), .count = digest(counts)};
  if (auto done = planned({.operation = Operation::reduce_scatter, .dtype = dtype, .op = op, .counts = counts,
                           .fingerprint = fingerprint.pack(), .output = [out](int) { return out; }}))
    return *done;
  return run_reduce_scatter(out, largest_of(counts), dtype, op, false, fingerprint.pack());
}

Status CommunicatorImpl::gather(const void* in, void* out, const BlockShape& shape, DType dtype, int root) {
  if (Status s = check_usable(); !s) return std::move(s).with("gather");
  if (Status s = check_gather(in, out, shape, dtype, root); !s) return s;
  const bool is_root = root == rank();
  const std::size_t count = shape.count(), element = dtype_bytes(dtype);
  std::fill(send_.begin(), send_.end(), Rows());
  if (count != 0) send_[static_cast<std::size_t>(root)] = Rows::packed(in, count * element);
  if (is_root)
    place_blocks(recv_, out, shape, element);
  else
    std::fill(recv_.begin(), recv_.end(), Rows());
  // Not the rows: their number is the root's affair alone.
  const Fingerprint fingerprint{.operation = Operation::gather, .dtype = dtype, .root = static_cast<std::uint16_t>(root), .count = count};
  // Only the root knows whether its blocks are packed, so whoever cuts along an inner dimension goes directly on all ranks.
  if (shape.outer == 1)
    if (auto done = planned({.operation = Operation::gather, .root = root, .dtype = dtype, .count = count, .fingerprint = fingerprint.pack(),
                             .input = [in](int) { return in; }}))
      return *done;
  return run_exchange({.send = send_, .recv = recv_, .shared = true, .largest = count * element, .fingerprint = fingerprint.pack()});
}

Status CommunicatorImpl::scatter(const void* in, void* out, std::size_t count, DType dtype, int root) {
  if (Status s = check_usable(); !s) return std::move(s).with("scatter");
  if (Status s = check_scatter(in, out, count, dtype, root); !s) return s;
  const bool is_root = root == rank();
  const std::size_t element = dtype_bytes(dtype);
  if (is_root)
    place_blocks(send_, in, BlockShape{1, count}, element);
  else
    std::fill(send_.begin(), send_.end(), Rows());
  std::fill(recv_.begin(), recv_.end(), Rows());
  if (count != 0) recv_[static_cast<std::size_t>(root)] = Rows::packed(out, count * element);
  const Fingerprint fingerprint{.operation = Operation::scatter, .dtype = dtype, .root = static_cast<std::uint16_t>(root), .count = count};
  if (auto done = planned({.operation = Operation::scatter, .root = root, .dtype = dtype, .count = count, .fingerprint = fingerprint.pack(),
                           .output = [out](int) { return out; }}))
    return *done;
  return run_exchange({.send = send_, .recv = recv_, .uniform = true, .largest = count * element, .fingerprint = fingerprint.pack()});
}

Status CommunicatorImpl::all_to_all(const void* in, void* out, std::size_t count, DType dtype) {
  if (Status s = check_usable(); !s) return std::move(s).with("all_to_all");
  if (Status s = check_all_to_all(in, out, count, dtype); !s) return s;
  const std::size_t element = dtype_bytes(dtype);
  place_blocks(send_, in, BlockShape{1, count}, element);
  place_blocks(recv_, out, BlockShape{1, count}, element);
  const Fingerprint fingerprint{.operation = Operation::all_to_all, .dtype = dtype, .count = count};
  if (auto done = planned({.operation = Operation::all_to_all, .dtype = dtype, .count = count, .in_place = in == out,
                           .fingerprint = fingerprint.pack()}))
    return *done;
  return run_exchange({.send = send_, .recv = recv_, .in_place = in == out, .uniform = true, .largest = count * element,
                       .fingerprint = fingerprint.pack()});
}

/// Everybody's counts to everybody: row r of counts_ is what rank r gave. Ranks may have different rows.
Status CommunicatorImpl::gather_counts(std::span<const std::size_t> row, Operation operation, DType dtype, int root) {
  counts_.resize(row.size() * static_cast<std::size_t>(size_));
  if (size_ == 1) {
    std::copy(row.begin(), row.end(), counts_.begin());
    return {};
  }
  std::fill(send_.begin(), send_.end(), Rows::packed(row.data(), row.size_bytes()));
  place_blocks(recv_, counts_.data(), BlockShape{1, row.size()}, sizeof(std::size_t));
  const Fingerprint fingerprint{.operation = operation, .dtype = dtype, .algorithm = static_cast<std::uint8_t>(Form::counts),
                                .root = static_cast<std::uint16_t>(root)};
  return settle(direct_.exchange({.send = send_, .recv = recv_, .shared = true, .largest = row.size_bytes(),
                                  .fingerprint = fingerprint.pack()}));
}

Status CommunicatorImpl::disagree(std::string_view call, int sender, std::size_t sent, int receiver, std::size_t expected) {
  return fail(base::error(StatusCode::mismatch, "{}: rank {} sends {} elements to rank {}, which expects {}", call, sender, sent,
                          receiver, expected));
}

Status CommunicatorImpl::gatherv(const void* in, std::size_t count, void* out, std::span<const std::size_t> counts, DType dtype, int root) {
  if (Status s = check_usable(); !s) return std::move(s).with("gatherv");
  if (Status s = check_gatherv(in, count, out, counts, dtype, root); !s) return s;
  const bool is_root = root == rank();
  const std::size_t element = dtype_bytes(dtype);
  if (Status s = gather_counts({&count, 1}, Operation::gather, dtype, root); !s) return s;
  if (is_root)
    for (int r = 0; r < size_; ++r)
      if (const auto i = static_cast<std::size_t>(r); counts_[i] != counts[i]) return disagree("gatherv", r, counts_[i], root, counts[i]);
  std::fill(send_.begin(), send_.end(), Rows());
  std::fill(recv_.begin(), recv_.end(), Rows());
  if (count != 0) send_[static_cast<std::size_t>(root)] = Rows::packed(in, count * element);
  if (is_root) place_blocks(recv_, out, counts, element);
  const Fingerprint fingerprint{.operation = Operation::gather, .dtype = dtype, .algorithm = static_cast<std::uint8_t>(Form::varying),
                                .root = static_cast<std::uint16_t>(root)};
  return run_exchange({.send = send_, .recv = recv_, .shared = true, .largest = largest_of(counts_) * element,
                       .fingerprint = fingerprint.pack()});
}

Status CommunicatorImpl::scatterv(const void* in, std::span<const std::size_t> counts, void* out, std::size_t count, DType dtype, int root) {
  if (Status s = check_usable(); !s) return std::move(s).with("scatterv");
  if (Status s = check_scatterv(in, counts, out, count, dtype, root); !s) return s;
  const bool is_root = root == rank();
  const std::size_t element = dtype_bytes(dtype);
  if (Status s = gather_counts({&count, 1}, Operation::scatter, dtype, root); !s) return s;
  if (is_root)
    for (int r = 0; r < size_; ++r)
      if (const auto i = static_cast<std::size_t>(r); counts_[i] != counts[i]) return disagree("scatterv", root, counts[i], r, counts_[i]);
  std::fill(send_.begin(), send_.end(), Rows());
  std::fill(recv_.begin(), recv_.end(), Rows());
  if (is_root) place_blocks(send_, in, counts, element);
  if (count != 0) recv_[static_cast<std::size_t>(root)] = Rows::packed(out, count * element);
  const Fingerprint fingerprint{.operation = Operation::scatter, .dtype = dtype, .algorithm = static_cast<std::uint8_t>(Form::varying),
                                .root = static_cast<std::uint16_t>(root)};
  return run_exchange({.send = send_, .recv = recv_, .largest = largest_of(counts_) * element, .fingerprint = fingerprint.pack()});
}

Status CommunicatorImpl::all_to_allv(const void* in, std::span<const std::size_t> in_counts, void* out,
                                     std::span<const std::size_t> out_counts, DType dtype) {
  if (Status s = check_usable(); !s) return std::move(s).with("all_to_allv");
  if (Status s = check_all_to_allv(in, in_counts, out, out_counts, dtype); !s) return s;
  const std::size_t element = dtype_bytes(dtype);
  if (Status s = gather_counts(in_counts, Operation::all_to_all, dtype, 0); !s) return s;
  for (int r = 0; r < size_; ++r) {
    const std::size_t sent = counts_[static_cast<std::size_t>(r) * static_cast<std::size_t>(size_) + static_cast<std::size_t>(rank())];
    if (const std::size_t expected = out_counts[static_cast<std::size_t>(r)]; sent != expected)
      return disagree("all_to_allv", r, sent, rank(), expected);
  }
  place_blocks(send_, in, in_counts, element);
  place_blocks(recv_, out, out_counts, element);
  const Fingerprint fingerprint{.operation = Operation::all_to_all, .dtype = dtype, .algorithm = static_cast<std::uint8_t>(Form::varying)};
  return run_exchange({.send = send_, .recv = recv_, .largest = largest_of(counts_) * element, .fingerprint = fingerprint.pack()});
}

Status CommunicatorImpl::reduce_divided(const void* in, void* out, std::size_t count, DType dtype, ReduceOp op, int divisor, int root) {
  if (Status s = check_usable(); !s) return std::move(s).with("reduce");
  if (Status s = check_reduce(in, out, count, dtype, op, root); !s) return s;
  counters_.operations.add(1);
  counters_.bytes_in.add(count * dtype_bytes(dtype));
  if (size_ == 1) return all_reduce_alone(in, out, count, dtype);
  const collectives::PathChoice choice = selector_.choose(Operation::reduce, count * dtype_bytes(dtype));
  if (choice.path == collectives::Path::levels) {
    counters_.level_ops.add(1);
    return settle(reduce_by_levels(in, out, count, dtype, op, divisor, root));
  }
  const Fingerprint fingerprint{.operation = Operation::reduce, .dtype = dtype, .op = op,
                                .algorithm = static_cast<std::uint8_t>(choice.path == collectives::Path::plan),
                                .root = static_cast<std::uint16_t>(root), .count = count};
  if (choice.path == collectives::Path::plan && (op != ReduceOp::avg || divisor == size_)) {
    if (root != rank()) {  // what passes through
      scratch_.resize(std::max(scratch_.size(), count * dtype_bytes(dtype)));
      out = scratch_.data();
    }
    return settle(run_plan(choice.algorithm, root, Operation::reduce, {.in = in, .out = out, .count = count, .dtype = dtype, .op = op},
                           fingerprint.pack()));
  }
  return settle(direct_.reduce({.in = in, .out = out, .count = count, .element_bytes = dtype_bytes(dtype), .kernel = kernels_.of(dtype, op),
                                .divisor = divisor, .fingerprint = fingerprint.pack(), .root = root}));
}

}  // namespace slipring::engine
