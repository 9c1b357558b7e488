// CommunicatorImpl: what stands behind slipring::Communicator. Errors are values here; the public class throws.
//
// Made by join(); owns the rank's view of the group, its channels and its executors. One thread at a time,
// except abort(). The first failure of an operation poisons the group and is what every later call returns.
#pragma once

#include <map>
#include <memory>
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
#include "engine/channel_table.h"
#include "engine/group/shared_group.h"
#include "engine/rank_environment.h"
#include "engine/store/store.h"
#include "slipring/communicator.h"

namespace slipring::engine {

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
  /// Meets them at a given store; used for threads.
  static Result<std::shared_ptr<CommunicatorImpl>> join_at(Store& store, int rank, int size, const base::Config& config,
                                                           const base::Deadline& deadline);
  CommunicatorImpl(std::shared_ptr<SharedGroup> group, const base::ConfigValues& config, const base::FaultPoint& fault);
  ~CommunicatorImpl();
  CommunicatorImpl(const CommunicatorImpl&) = delete;
  CommunicatorImpl& operator=(const CommunicatorImpl&) = delete;

  int rank() const noexcept { return group_->rank(); }
  int size() const noexcept { return size_; }

  Status all_reduce(const void* in, void* out, std::size_t count, DType dtype, ReduceOp op);
  Status broadcast(void* buffer, std::size_t count, DType dtype, int root);
  Status barrier();
  Status send(const void* buffer, std::size_t bytes, int peer);
  Status recv(void* buffer, std::size_t bytes, int peer);
  Result<std::unique_ptr<transports::ChannelProducer>> open_producer(int peer);
  Result<std::unique_ptr<transports::ChannelConsumer>> open_consumer(int peer);
  Result<void*> heap_allocate(std::size_t bytes);
  Status heap_free(void* pointer);
  Result<Selection> explain(std::string_view operation, std::size_t bytes) const;

  /// This rank's counters as CountersView reads them.
  std::span<const std::byte> counter_memory() const noexcept { return group_->counter_memory(); }

  Status abort(std::string_view reason) noexcept;
  void close() noexcept;

 private:
  using PlanKey = std::tuple<collectives::Operation, std::string_view, int>;  // operation, algorithm, root

  Status check_usable() const;
  bool is_peer(int peer) const noexcept { return peer >= 0 && peer < size_ && peer != rank(); }
  [[gnu::cold, gnu::noinline]] Status refuse_peer(int peer, std::string_view call) const;
  [[gnu::cold, gnu::noinline]] Status refuse_message(const void* buffer, std::size_t bytes, int peer, std::string_view call) const;
  /// Whether an operation may begin: not failed, closed or poisoned, and not in a forked child.
  bool usable() const noexcept {
    return usable_ && !group_->poisoned() && generation_ == base::fork_generation();
  }
  [[gnu::cold, gnu::noinline]] Status refuse_all_reduce(const void* in, const void* out, std::size_t count, DType dtype,
                                                        ReduceOp op) const;
  Status all_reduce_alone(const void* in, void* out, std::size_t count, DType dtype);
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
  collectives::Selector selector_;
  ChannelTable channels_;
  base::CounterBlock private_counters_;  // in use if counters.enabled is false
  base::CounterBlock& counters_;
  std::map<PlanKey, std::unique_ptr<collectives::Executor>> executors_;
  Status failure_;  // of the first operation that failed
  bool closed_ = false;
  bool usable_ = true;  // neither failed nor closed
  const std::uint32_t generation_ = base::fork_generation();
};

}  // namespace slipring::engine
