// Operations run from plans over channels: control path per operation, the executor does the rest.
#include <cstring>
#include <numeric>

#include "base/status.h"
#include "collectives/algorithms/algorithm.h"
#include "engine/communicator_impl.h"

namespace slipring::engine {

using collectives::BlockPlace;
using collectives::Operation;
using collectives::Rows;

Result<collectives::Executor*> CommunicatorImpl::executor(const PlanKey& key) {
  auto& entry = executors_[key];
  if (entry) return entry.get();
  const auto& [operation, name, root] = key;
  const collectives::Algorithm* algorithm = collectives::find_algorithm(operation, name);
  if (!algorithm)
    return base::error(StatusCode::unsupported, "{} has no algorithm \"{}\"; slipring-info plan lists them",
                       operation_name(operation), name);
  const collectives::PlanRequest request{.ranks = size(), .root = root, .lanes = group_->layout().plan_lanes, .only_rank = rank()};
  if (Status s = collectives::valid_request(request); !s) return s;
  auto made = collectives::Executor::create(
      algorithm->build(request), rank(), channels_,
      {.chunk_bytes = static_cast<std::size_t>(config_.plan_chunk_bytes),
       .max_message_bytes = group_->layout().ring.max_message_bytes(),
       .on_piece = fault_.armed() ? [this](std::uint64_t piece) { fault_.at(direct_.operation(), piece); }
                                  : std::function<void(std::uint64_t)>()});
  if (!made) return std::move(made).status();
  entry = std::move(*made);
  return entry.get();
}

Status CommunicatorImpl::run_plan(std::string_view algorithm, int root, Operation operation,
                                  const collectives::CollectiveCall& call, std::uint64_t fingerprint) {
  counters_.plan_ops.add(1);
  auto plan = executor({operation, algorithm, root});
  if (!plan) return std::move(plan).status();
  if (Status s = direct_.rendezvous(fingerprint); !s) return s;  // ranks that disagree find out before data moves
  Status s = (*plan)->run(call, [&](auto&& ready) { return waiter_.wait(ready); });
  if (s.is_ok()) return s;
  return std::move(s).with(fmt::format("rank {} in {} by {}: {}", rank(), operation_name(operation), algorithm,
                                       (*plan)->describe_wait()));
}

/// Blocks of which every rank knows the sizes, one after the other in memory.
Status CommunicatorImpl::run_block_plan(std::string_view algorithm, const BlockMove& move) {
  const std::size_t element = dtype_bytes(move.dtype);
  const int blocks = collectives::blocks_of(move.operation, size_);
  const auto count_of = [&](int owner) { return move.counts.empty() ? move.count : move.counts[static_cast<std::size_t>(owner)]; };
  std::size_t carried = 0;  // elements that this rank may have to keep for others
  for (int b = 0; b < blocks; ++b) carried += count_of(move.operation == Operation::all_to_all ? b % size_ : b);
  scratch_.resize(std::max(scratch_.size(), (carried + (move.in_place ? carried : 0)) * element));
  std::byte* scratch = scratch_.data();

  places_.clear();
  for (int b = 0; b < blocks; ++b) {
    const bool pairs = move.operation == Operation::all_to_all;
    const int from = pairs ? b / size_ : b, to = pairs ? b % size_ : b;
    BlockPlace place{.count = count_of(pairs ? to : b)};
    if (collectives::has_input(move.operation, size_, move.root, rank(), b)) place.in = move.input(to);
    if (collectives::needs_output(move.operation, size_, move.root, rank(), b)) {
      place.out = move.output(from);
    } else {
      place.out = scratch;
      scratch += place.count * element;
    }
    if (pairs && move.in_place && place.in != nullptr && place.count != 0) {
      // The place of this block is also where another one arrives.
      std::memcpy(scratch, place.in, place.count * element);
      place.in = scratch;
      scratch += place.count * element;
    }
    places_.push_back(place);
  }
  return run_plan(algorithm, move.root, move.operation, {.dtype = move.dtype, .op = move.op, .blocks = places_}, move.fingerprint);
}

}  // namespace slipring::engine
