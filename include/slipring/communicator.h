// Communicator: a group of ranks that run collectives and exchange messages.
//
//   auto comm = slipring::Communicator::join();           // one call per rank; who and where from the environment
//   comm.all_reduce(std::span(x), slipring::ReduceOp::sum);   // every rank, same order, same arguments
//   comm.close();                                         // optional: the destructor closes too
//
// Wrong: calling an operation on some ranks only (the others wait until their deadline, then name who is
// missing); calling one communicator from two threads at once.
//
// Each operation is called by every rank of the communicator in the same order with the same count, type,
// operator and root; ranks that disagree all get Error(mismatch) that shows both sides. Results are
// bit-identical on all ranks. Buffers belong to the caller and are free to be reused when the call returns.
// Failure: every call ends within the configured timeout; the first failure poisons the communicator, and all
// later calls on all of its ranks throw the same Error. Thread-safety: one thread at a time per communicator (builds with
// assertions refuse a second one with Error(invalid_argument)), any number of communicators at the same time; abort() may
// be called from any thread at any time.
#ifndef SLIPRING_COMMUNICATOR_H
#define SLIPRING_COMMUNICATOR_H

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "slipring/buffer.h"
#include "slipring/channel.h"
#include "slipring/export.h"
#include "slipring/status.h"
#include "slipring/types.h"
#include "slipring/work.h"

namespace slipring {

namespace engine {
class CommunicatorImpl;
}

/// Who this rank is and where the ranks meet. Fields left at their defaults are taken from the environment
/// (SLIPRING_RANK, SLIPRING_SIZE, SLIPRING_STORE, SLIPRING_JOB_TOKEN), as slipring-run sets it.
struct JobOptions {
  int rank = -1;
  int size = -1;
  std::string store;      ///< "tcp://127.0.0.1:PORT", "file:///DIRECTORY", a unique id (world.h), or "" for the environment's
  std::string job_token;  ///< secret that the ranks of one job share
  /// Configuration values by key, e.g. {{"wait.spin_ns", "0"}}; they win over environment and files.
  std::map<std::string, std::string> config;
};

/// What the selector chose for one operation, and why.
struct Selection {
  std::string algorithm;  ///< e.g. "one_shot", "two_phase", "ring"
  std::string transport;  ///< e.g. "shm", "inproc"
  std::size_t chunk_bytes = 0;
  std::string reason;     ///< one sentence
};

/// Extents of a dense row-major tensor, in elements, outermost first.
using Shape = std::span<const std::size_t>;

/// Who gets the result of a gather. spmd is for devices whose ranks must all run the same program (XLA): every rank
/// gets it, and none is left without.
enum class GatherMode : std::uint8_t { rooted = 0, spmd = 1 };

class SLIPRING_API Communicator {
 public:
  /// Meets the other ranks in the store and returns this rank's communicator of all of them.
  /// Throws Error(timeout) naming the missing ranks when they do not all come within startup.timeout_ms.
  static Communicator join(const JobOptions& options = {});

  Communicator() noexcept;  ///< empty; only assignment and destruction are valid
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator();

  /// False for an empty one: not joined, moved from, or of a rank that is not in the group.
  explicit operator bool() const noexcept { return impl_ != nullptr; }

  // Further communicators of this one's ranks: any number, overlapping, at the same time, from different threads. Each
  // has its own memory and order of operations; a failure in one leaves the others usable, but abort() of this one ends
  // them too. They may outlive it.

  /// Every rank calls it. Ranks that give the same color form a communicator, in the order of key, then of rank() here;
  /// a rank with a negative color gets an empty one.
  Communicator split(int color, int key = 0);
  /// The communicator of the listed ranks, in that order. Called by them, all with the same list; another rank that
  /// calls it gets an empty one at once. Two ranks must form the groups that they share in the same order.
  Communicator create_group(std::span<const int> ranks);

  int rank() const noexcept;
  int size() const noexcept;
  int local_rank() const noexcept;  ///< index among the ranks of this node
  int local_size() const noexcept;
  int nodes() const noexcept;

  /// out[i] = op over all ranks of in[i], for i < count; in == out is in place, partial overlap is an error.
  void all_reduce(ConstBuffer in, Buffer out, std::size_t count, DType dtype, ReduceOp op);
  template <class T>
  void all_reduce(std::span<T> buffer, ReduceOp op) {
    all_reduce(buffer.data(), buffer.data(), buffer.size(), dtype_of<T>::value, op);
  }
  /// buffer of rank `root` is copied into the buffer of every other rank. The root does not wait for the others: ranks
  /// that disagree about root or count learn of it at the latest in their next collective operation.
  void broadcast(Buffer buffer, std::size_t count, DType dtype, int root);
  /// Returns once every rank has entered.
  void barrier();

  // The operations below take, besides the count of elements, the shape of a tensor and the dimension along which it
  // is put together or cut; dim counts from the end if it is negative. In place, one of the two buffers is this rank's
  // own block of the other, along dimension 0; every other overlap is an error. Forms that end in v have a count per
  // rank, which may be 0, and blocks that lie one after the other in rank order. A rank that only gives returns as
  // soon as its buffer can be used again; ranks that disagree learn of it at the latest in their next operation.

  /// out of `root` = op over all ranks of in; the other ranks' out is not used and may be null.
  void reduce(ConstBuffer in, Buffer out, std::size_t count, DType dtype, ReduceOp op, int root);

  /// out, of size() * count elements, = the inputs of all ranks in rank order.
  void all_gather(ConstBuffer in, Buffer out, std::size_t count, DType dtype);
  /// The inputs, each of `shape`, concatenated along `dim`.
  void all_gather(ConstBuffer in, Buffer out, Shape shape, int dim, DType dtype);
  /// Rank r gives counts[r] elements; the same counts on every rank.
  void all_gatherv(ConstBuffer in, Buffer out, std::span<const std::size_t> counts, DType dtype);

  /// out, of count elements, = op over all ranks of their block number rank() of size() * count elements.
  void reduce_scatter(ConstBuffer in, Buffer out, std::size_t count, DType dtype, ReduceOp op);
  /// in has `shape`; size() must divide the extent of `dim`, along which rank r gets the r-th part.
  void reduce_scatter(ConstBuffer in, Buffer out, Shape shape, int dim, DType dtype, ReduceOp op);
  /// Rank r gets counts[r] elements; the same counts on every rank.
  void reduce_scatterv(ConstBuffer in, Buffer out, std::span<const std::size_t> counts, DType dtype, ReduceOp op);

  /// As all_gather, but only `root` gets the result, unless mode is spmd; true on the ranks that got it.
  bool gather(ConstBuffer in, Buffer out, std::size_t count, DType dtype, int root, GatherMode mode = GatherMode::rooted);
  bool gather(ConstBuffer in, Buffer out, Shape shape, int dim, DType dtype, int root, GatherMode mode = GatherMode::rooted);
  /// Every rank gives `count` elements of its own; counts are read on the root only, and must say the same.
  void gatherv(ConstBuffer in, std::size_t count, Buffer out, std::span<const std::size_t> counts, DType dtype, int root);

  /// out of rank r = block r of the root's size() * count elements; in is read on the root only.
  void scatter(ConstBuffer in, Buffer out, std::size_t count, DType dtype, int root);
  void scatterv(ConstBuffer in, std::span<const std::size_t> counts, Buffer out, std::size_t count, DType dtype, int root);

  /// Block s of out = block number rank() of rank s's in; count elements each. in == out is in place.
  void all_to_all(ConstBuffer in, Buffer out, std::size_t count, DType dtype);
  /// in_counts[d] elements go to rank d, out_counts[s] come from rank s and must be what s gives. Not in place.
  void all_to_allv(ConstBuffer in, std::span<const std::size_t> in_counts, Buffer out, std::span<const std::size_t> out_counts,
                   DType dtype);

  /// Blocking point-to-point: a message of exactly `bytes`; any size. send may return before the peer
  /// receives if the message fits into the channel, and waits otherwise.
  void send(const void* buffer, std::size_t bytes, int peer);
  void recv(void* buffer, std::size_t bytes, int peer);

  // Asynchronous forms of the calls above: the same arguments and rules; work.h says how they advance and in which order.
  // Counts and shapes are copied. Arguments that can never work are refused by the call itself.
  Work iall_reduce(ConstBuffer in, Buffer out, std::size_t count, DType dtype, ReduceOp op);
  Work ireduce(ConstBuffer in, Buffer out, std::size_t count, DType dtype, ReduceOp op, int root);
  Work ibroadcast(Buffer buffer, std::size_t count, DType dtype, int root);
  Work ibarrier();
  Work iall_gather(ConstBuffer in, Buffer out, std::size_t count, DType dtype);
  Work iall_gather(ConstBuffer in, Buffer out, Shape shape, int dim, DType dtype);
  Work iall_gatherv(ConstBuffer in, Buffer out, std::span<const std::size_t> counts, DType dtype);
  Work ireduce_scatter(ConstBuffer in, Buffer out, std::size_t count, DType dtype, ReduceOp op);
  Work ireduce_scatter(ConstBuffer in, Buffer out, Shape shape, int dim, DType dtype, ReduceOp op);
  Work ireduce_scatterv(ConstBuffer in, Buffer out, std::span<const std::size_t> counts, DType dtype, ReduceOp op);
  Work igather(ConstBuffer in, Buffer out, std::size_t count, DType dtype, int root, GatherMode mode = GatherMode::rooted);
  Work igather(ConstBuffer in, Buffer out, Shape shape, int dim, DType dtype, int root, GatherMode mode = GatherMode::rooted);
  Work igatherv(ConstBuffer in, std::size_t count, Buffer out, std::span<const std::size_t> counts, DType dtype, int root);
  Work iscatter(ConstBuffer in, Buffer out, std::size_t count, DType dtype, int root);
  Work iscatterv(ConstBuffer in, std::span<const std::size_t> counts, Buffer out, std::size_t count, DType dtype, int root);
  Work iall_to_all(ConstBuffer in, Buffer out, std::size_t count, DType dtype);
  Work iall_to_allv(ConstBuffer in, std::span<const std::size_t> in_counts, Buffer out, std::span<const std::size_t> out_counts,
                    DType dtype);
  Work isend(const void* buffer, std::size_t bytes, int peer);
  Work irecv(void* buffer, std::size_t bytes, int peer);

  /// A dedicated ring channel to / from `peer`. Both sides call the matching function in the same order;
  /// it returns when both have. The endpoints keep working until they or the communicator are closed.
  Producer open_producer(int peer);
  Consumer open_consumer(int peer);

  /// Memory that every rank of the node can reach: collectives on it need no staging copies. 64-byte aligned,
  /// contents unspecified. Throws Error(out_of_memory) with needed and free bytes. Freed by heap_free or, at
  /// the latest, with the last communicator of the job.
  void* heap_allocate(std::size_t bytes);
  void heap_free(void* pointer) noexcept;

  /// What all_reduce (operation name as in slipring-perf) would use for `bytes`.
  Selection explain(const std::string& operation, std::size_t bytes) const;

  /// Makes every pending and later call on every rank throw Error(aborted). Bounded, idempotent, any thread.
  void abort(const std::string& reason) noexcept;
  /// Waits, bounded, until what was sent can no longer be lost, then releases everything. Idempotent.
  void close() noexcept;

 private:
  explicit Communicator(std::shared_ptr<engine::CommunicatorImpl> impl) noexcept;
  friend void run_threads(int, const std::function<void(Communicator&)>&, const JobOptions&);
  std::shared_ptr<engine::CommunicatorImpl> impl_;
};

/// Runs `body` on `size` threads of this process, each with its own communicator of one job, and joins them.
/// Rethrows the first exception; the other ranks are aborted by it.
SLIPRING_API void run_threads(int size, const std::function<void(Communicator&)>& body,
                              const JobOptions& options = {});

}  // namespace slipring

#endif
