// CommunicatorImpl: what stands behind slipring::Communicator. Errors are values here; the public class throws.
//
// Made by join(); owns the rank's view of the group, its channels and its executors. One thread at a time,
// except abort(). The first failure of an operation poisons the group and is what every later call returns.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>

#include "base/config.h"
#include "base/counters.h"
#include "base/fault.h"
#include "base/fork_generation.h"
#include "collectives/direct/direct_collectives.h"
#include "collectives/executor.h"
#include "collectives/selector.h"
#include "engine/async/lanes.h"
#include "engine/block_shape.h"
#include "engine/channel_table.h"
#include "engine/group/shared_group.h"
#include "engine/rank_environment.h"
#include "engine/store/store.h"
#include "engine/topology/domains.h"
#include "slipring/communicator.h"

namespace slipring::engine {

class Subgroup;

/// The reduction kernels of this CPU, resolved once.
class KernelTable {
 public:
  KernelTable() noexcept {
    for (int t = 0; t < kDTypeCount; ++t)
      for (int o = 0; o < kReduceOpCount; ++o)
        kernels_[t][o] = collectives::reduce_kernel(static_cast<DType>(t), static_cast<ReduceOp>(o));
  }
  collectives::ReduceFn of(DType dtype, ReduceOp op) const noexcept {
    return kernels_[static_cast<int>(dtype)][static_cast<int>(op)];
  }

 private:
  collectives::ReduceFn kernels_[kDTypeCount][kReduceOpCount];
};

class CommunicatorImpl {
 public:
  /// Meets the other ranks at the store that the options or the environment name.
  static Result<std::shared_ptr<CommunicatorImpl>> join(const JobOptions& options);
  /// Meets them at a given store, where `meeting` keeps groups apart; used for threads.
  static Result<std::shared_ptr<CommunicatorImpl>> join_at(Store& store, int rank, int size, const base::Config& config,
                                                           const base::Deadline& deadline, std::string_view meeting = "world");
  CommunicatorImpl(std::shared_ptr<SharedGroup> group, const base::ConfigValues& config, const base::FaultPoint& fault);
  ~CommunicatorImpl();
  CommunicatorImpl(const CommunicatorImpl&) = delete;
  CommunicatorImpl& operator=(const CommunicatorImpl&) = delete;

  int rank() const noexcept { return group_->rank(); }
  int size() const noexcept { return size_; }

  Status all_reduce(const void* in, void* out, std::size_t count, DType dtype, ReduceOp op) {
    return all_reduce_divided(in, out, count, dtype, op, op == ReduceOp::avg ? size_ : 1);
  }
  Status broadcast(void* buffer, std::size_t count, DType dtype, int root);
  Status barrier();
  Status reduce(const void* in, void* out, std::size_t count, DType dtype, ReduceOp op, int root) {
    return reduce_divided(in, out, count, dtype, op, op == ReduceOp::avg ? size_ : 1, root);
  }
  Status all_gather(const void* in, void* out, const BlockShape& shape, DType dtype);
  Status all_gatherv(const void* in, void* out, std::span<const std::size_t> counts, DType dtype);
  Status reduce_scatter(const void* in, void* out, const BlockShape& shape, DType dtype, ReduceOp op);
  Status reduce_scatterv(const void* in, void* out, std::span<const std::size_t> counts, DType dtype, ReduceOp op);
  Status gather(const void* in, void* out, const BlockShape& shape, DType dtype, int root, GatherMode mode) {
    return mode == GatherMode::spmd ? all_gather(in, out, shape, dtype) : gather(in, out, shape, dtype, root);
  }
  Status gather(const void* in, void* out, const BlockShape& shape, DType dtype, int root);
  Status gatherv(const void* in, std::size_t count, void* out, std::span<const std::size_t> counts, DType dtype, int root);
  Status scatter(const void* in, void* out, std::size_t count, DType dtype, int root);
  Status scatterv(const void* in, std::span<const std::size_t> counts, void* out, std::size_t count, DType dtype, int root);
  Status all_to_all(const void* in, void* out, std::size_t count, DType dtype);
  Status all_to_allv(const void* in, std::span<const std::size_t> in_counts, void* out, std::span<const std::size_t> out_counts,
                     DType dtype);
  // What is wrong with the arguments of the call of that name, whatever else the communicator is doing.
  Status check_all_reduce(const void* in, const void* out, std::size_t count, DType dtype, ReduceOp op) const;
  Status check_broadcast(const void* buffer, std::size_t count, DType dtype, int root) const;
  Status check_reduce(const void* in, const void* out, std::size_t count, DType dtype, ReduceOp op, int root) const;
  Status check_all_gather(const void* in, const void* out, const BlockShape& shape, DType dtype) const;
  Status check_all_gatherv(const void* in, const void* out, std::span<const std::size_t> counts, DType dtype) const;
  Status check_reduce_scatter(const void* in, const void* out, const BlockShape& shape, DType dtype, ReduceOp op) const;
  Status check_reduce_scatterv(const void* in, const void* out, std::span<const std::size_t> counts, DType dtype, ReduceOp op) const;
  Status check_gather(const void* in, const void* out, const BlockShape& shape, DType dtype, int root, GatherMode mode) const {
    return mode == GatherMode::spmd ? check_all_gather(in, out, shape, dtype) : check_gather(in, out, shape, dtype, root);
  }
  Status check_gather(const void* in, const void* out, const BlockShape& shape, DType dtype, int root) const;
  Status check_gatherv(const void* in, std::size_t count, const void* out, std::span<const std::size_t> counts, DType dtype,
                       int root) const;
  Status check_scatter(const void* in, const void* out, std::size_t count, DType dtype, int root) const;
  Status check_scatterv(const void* in, std::span<const std::size_t> counts, const void* out, std::size_t count, DType dtype,
                        int root) const;
  Status check_all_to_all(const void* in, const void* out, std::size_t count, DType dtype) const;
  Status check_all_to_allv(const void* in, std::span<const std::size_t> in_counts, const void* out,
                           std::span<const std::size_t> out_counts, DType dtype) const;
  Status check_message(const void* buffer, std::size_t bytes, int peer, std::string_view call) const;
  /// Refuses a forked child.
  Status check_process() const;
  Status check_open() const;

  Status send(const void* buffer, std::size_t bytes, int peer);
  Status recv(void* buffer, std::size_t bytes, int peer);
  // The same on a lane: can be taken back as long as nothing was exchanged.
  Status send_in_lane(WorkState& operation, const void* buffer, std::size_t bytes, int peer);
  Status recv_in_lane(WorkState& operation, void* buffer, std::size_t bytes, int peer);
  /// Whether asynchronous operations are in flight: a blocking one then takes its turn among them.
  bool busy() const noexcept { return lanes_ && lanes_->busy(); }
  Lanes& lanes();
  Result<std::unique_ptr<transports::ChannelProducer>> open_producer(int peer);
  Result<std::unique_ptr<transports::ChannelConsumer>> open_consumer(int peer);
  /// Null for a rank that is in none of the new groups.
  Result<std::shared_ptr<CommunicatorImpl>> split(int color, int key);
  Result<std::shared_ptr<CommunicatorImpl>> create_group(std::span<const int> ranks);
  Result<void*> heap_allocate(std::size_t bytes);
  Status heap_free(void* pointer);
  Result<Selection> explain(std::string_view operation, std::size_t bytes) const;

  /// This rank's counters as CountersView reads them.
  std::span<const std::byte> counter_memory() const noexcept { return group_->counter_memory(); }

  Status abort(std::string_view reason) noexcept;
  void close() noexcept;
  /// The thread that is inside, 0 if none; kept only in builds that check it.
  std::atomic<int>& thread_inside() noexcept { return thread_inside_; }

 private:
  using PlanKey = std::tuple<collectives::Operation, std::string_view, int>;  // operation, algorithm, root

  Status check_usable() const;
  Status check_members(std::span<const int> ranks) const;
  Result<std::shared_ptr<CommunicatorImpl>> found(Subgroup& subgroup, std::span<const std::uint64_t> offers);
  bool is_peer(int peer) const noexcept { return peer >= 0 && peer < size_ && peer != rank(); }
  [[gnu::cold, gnu::noinline]] Status refuse_peer(int peer, std::string_view call) const;
  [[gnu::cold, gnu::noinline]] Status refuse_message(const void* buffer, std::size_t bytes, int peer, std::string_view call) const;
  /// Whether an operation may begin: not failed, closed or poisoned, and not in a forked child.
  bool usable() const noexcept {
    return usable_ && !group_->poisoned() && generation_ == base::fork_generation();
  }
  [[gnu::cold, gnu::noinline]] Status refuse_all_reduce(const void* in, const void* out, std::size_t count, DType dtype,
                                                        ReduceOp op) const;
  Status refuse_buffers(const void* in, const void* out, std::size_t count, DType dtype) const;
  struct Operand {
    const void* data;
    std::size_t count;
  };
  Status check_operands(const Operand& in, const Operand& out, DType dtype, std::size_t own_offset, int root) const;
  Status check_in_place(const Operand& in, const Operand& out, DType dtype, const BlockShape& shape) const;
  Status check_counts(std::span<const std::size_t> counts, std::string_view name) const;
  Status check_reduction(DType dtype, ReduceOp op) const;
  [[gnu::cold]] Status disagree(std::string_view call, int sender, std::size_t sent, int receiver, std::size_t expected);
  void place_blocks(std::vector<collectives::Rows>& rows, const void* whole, const BlockShape& shape, std::size_t element) const;
  void place_blocks(std::vector<collectives::Rows>& rows, const void* whole, std::span<const std::size_t> counts,
                    std::size_t element) const;
  Status gather_counts(std::span<const std::size_t> row, collectives::Operation operation, DType dtype, int root);
  Status run_exchange(const collectives::Exchange& exchange);
  Status run_reduce_scatter(void* out, std::size_t largest, DType dtype, ReduceOp op, bool uniform, std::uint64_t fingerprint);
  Status broadcast_direct(void* buffer, std::size_t bytes, int root, std::uint64_t fingerprint);
  Status all_reduce_alone(const void* in, void* out, std::size_t count, DType dtype);
  // An average is divided by the ranks of all levels, in the last of them.
  Status all_reduce_divided(const void* in, void* out, std::size_t count, DType dtype, ReduceOp op, int divisor);
  Status reduce_divided(const void* in, void* out, std::size_t count, DType dtype, ReduceOp op, int divisor, int root);
  // Collectives by levels (communicator_levels.cc).
  bool is_leader() const noexcept { return inside_->rank() == 0; }
  Status form_levels();
  Status all_reduce_by_levels(const void* in, void* out, std::size_t count, DType dtype, ReduceOp op, int divisor);
  Status broadcast_by_levels(void* buffer, std::size_t count, DType dtype, int root);
  Status barrier_by_levels();
  Status reduce_by_levels(const void* in, void* out, std::size_t count, DType dtype, ReduceOp op, int divisor, int root);
  /// An operation that moves packed blocks of which every rank knows the sizes.
  struct BlockMove {
    collectives::Operation operation;
    int root = 0;
    DType dtype = DType::f32;
    ReduceOp op = ReduceOp::sum;
    std::size_t count = 0;                    ///< of each block, in elements
    std::span<const std::size_t> counts = {};  ///< by rank instead, if given
    bool in_place = false;                    ///< all_to_all: input and output are one buffer
    std::uint64_t fingerprint = 0;
    std::function<const void*(int to)> input = {};   ///< this rank's block for a rank
    std::function<void*(int from)> output = {};      ///< where the block of a rank goes
  };
  Status run_block_plan(std::string_view algorithm, const BlockMove& move);
  /// By plan if the selector says so and all blocks are packed; nullopt: directly.
  std::optional<Status> planned(BlockMove move);
  Status run_plan(std::string_view algorithm, int root, collectives::Operation operation,
                  const collectives::CollectiveCall& call, std::uint64_t fingerprint);
  Result<collectives::Executor*> executor(const PlanKey& key);
  /// Poisons the group with what went wrong and remembers it. Passes ok through.
  Status settle(Status&& status) {
    if (status.is_ok()) [[likely]] return {};
    return fail(std::move(status));
  }
  [[gnu::cold]] Status fail(Status status);

  const std::shared_ptr<SharedGroup> group_;
  const int size_;
  const base::ConfigValues config_;
  const base::FaultPoint fault_;
  base::Waiter waiter_;
  collectives::DirectCollectives direct_;
  const KernelTable kernels_;
  const std::optional<DomainSplit> split_;  // of the ranks into domains, if that is of use
  collectives::Selector selector_;
  ChannelTable channels_;
  base::CounterBlock private_counters_;  // in use if counters.enabled is false
  base::CounterBlock& counters_;
  std::map<PlanKey, std::unique_ptr<collectives::Executor>> executors_;
  std::vector<collectives::Rows> send_, recv_;  // blocks of the exchange under way, by rank
  std::vector<collectives::BlockPlace> places_;  // of a plan under way
  std::vector<std::size_t> counts_;             // of all ranks, in the forms whose ranks know only their own
  std::shared_ptr<CommunicatorImpl> inside_, across_;  // formed by the first operation by levels; see split_
  std::unique_ptr<Lanes> lanes_;                       // from the first asynchronous operation on
  std::vector<std::byte> scratch_;                     // partial results of reduce on ranks that do not get the result
  std::atomic<int> thread_inside_{0};
  Status failure_;  // of the first operation that failed
  bool closed_ = false;
  bool usable_ = true;  // neither failed nor closed
  const std::uint32_t generation_ = base::fork_generation();
};

}  // namespace slipring::engine
