// Collectives of the ranks of one node straight through shared memory: no channel, no plan, no acknowledgement.
//
// Words: an operation is published (one line says who has come, with which arguments, and holds or announces the
// data); a chunk is staged (copied where peers can read it), reduced by the rank that owns the block, and copied
// out by the others. Every rank calls the same operations in the same order. Results are combined in rank
// order, so they are bit-identical on all ranks. One object per rank and communicator, one thread at a time.
// Failure: mismatch when ranks disagree, else what the Waiter says; afterwards the object is of no further use.
//
// Sources: one-shot is the "direct" all-gather + local reduction of small messages; two-phase is
// Rabenseifner's reduce-scatter + all-gather (Optimization of Collective Reduction Operations, ICCS 2004) with
// direct access instead of messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/copy.h"
#include "base/fault.h"
#include "base/wait.h"
#include "collectives/direct/exchange.h"
#include "collectives/direct/rank_area.h"
#include "collectives/fingerprint.h"
#include "collectives/reduce_kernels.h"

namespace slipring::collectives {

/// memcpy of at most kPublicationBytes, inline: a call costs more than the copy.
inline void copy_short(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  const auto pieces = [&](auto unit) {  // the last piece may overlap the one before
    for (std::size_t i = 0; i + sizeof unit < bytes; i += sizeof unit) std::memcpy(to + i, from + i, sizeof unit);
    std::memcpy(to + bytes - sizeof unit, from + bytes - sizeof unit, sizeof unit);
  };
  struct Sixteen { std::uint64_t words[2]; };
  if (bytes >= sizeof(Sixteen)) return pieces(Sixteen{});
  if (bytes >= 8) return pieces(std::uint64_t{});
  if (bytes >= 4) return pieces(std::uint32_t{});
  for (std::size_t i = 0; i < bytes; ++i) to[i] = from[i];
}

struct ReduceRequest {
  const void* in;
  void* out;               ///< identical to in, or not overlapping it
  std::size_t count;
  std::size_t element_bytes;
  ReduceFn kernel;
  int divisor;             ///< see ReduceFn
  std::uint64_t fingerprint;
  int root = -1;           ///< the only rank that gets the result, with an `out`; -1: all do
};

class DirectCollectives {
 public:
  DirectCollectives(DirectGroup group, base::Waiter& waiter, const base::FaultPoint& fault);

  /// Each rank publishes its whole input, every rank reduces all inputs. At most box_bytes.
  Status all_reduce_one_shot(const ReduceRequest& request) {
    return request.count * request.element_bytes <= kPublicationBytes ? one_shot_inline(request) : one_shot_boxed(request);
  }
  /// Each rank reduces its share of every chunk and the others copy the result. Any size. Buffers that all lie
  /// in the ranks' heaps are read and written in place.
  Status all_reduce_two_phase(const ReduceRequest& request);
  /// Returns when every rank has published the same operation; carries no data. Also how an operation that
  /// runs over channels begins.
  Status rendezvous(std::uint64_t fingerprint);
  /// All_reduce whose result only request.root gets. Any size; the others may run ahead of it by one operation.
  Status reduce(const ReduceRequest& request);
  /// Moves blocks of any size. A rank waits only for those that it takes from, and may run ahead of the others by
  /// one operation.
  Status exchange(const Exchange& exchange);
  /// Each rank takes the others' blocks for it, combined with its own.
  Status reduce_scatter(const Exchange& exchange, const ScatterReduction& reduction);

  /// Tells the peers that this rank calls nothing more; an operation that they call then fails with closed.
  /// Waits at most until the peers have come to the last operation.
  void leave() noexcept;

  std::uint64_t operation() const noexcept { return k_; }

 private:
  /// Below it a hand-over to a thread and back costs more than it saves.
  static constexpr std::size_t kSharedBytes = 32 * 1024;

  struct Peer {
    RankControl* control;
    int rank;
  };
  struct Block {
    std::size_t offset, count;  // elements from the start of the chunk
  };

  // In this header because a call or two more would be felt: all of it takes a few dozen nanoseconds.
  Status one_shot_inline(const ReduceRequest& request) {
    if (Status s = enter(request.fingerprint); !s) [[unlikely]] return s;
    publish(request.in, request.count * request.element_bytes);
    for (const Peer& peer : peers_) {
      if (Status s = await_published(peer); !s) [[unlikely]] return s;
      sources_[static_cast<std::size_t>(peer.rank)] = peer.control->publications[k_ & 1].payload;
    }
    return reduce_sources(request);
  }
  Status one_shot_boxed(const ReduceRequest& request);
  Status reduce_sources(const ReduceRequest& request) {
    confirmed_ = k_;
    sources_[static_cast<std::size_t>(group_.rank())] = request.in;
    request.kernel(request.out, nullptr, sources_.data(), group_.ranks(), request.count, request.divisor);
    // The line of the next operation was last read by peers that have all moved on: fetch it back meanwhile.
    base::request_ownership(&own_publications_[(k_ & 1) ^ 1]);
    return {};
  }

  bool gets_result(const ReduceRequest& request) const noexcept { return request.root < 0 || request.root == group_.rank(); }
  Status staged_two_phase(const ReduceRequest& request);
  Status stage_chunk(const ReduceRequest& request, std::size_t first, std::size_t count, std::uint64_t g);
  Status reduce_chunk(const ReduceRequest& request, std::size_t first, std::size_t count, std::uint64_t g);
  Status copy_out_chunk(const ReduceRequest& request, std::size_t first, std::size_t count, std::uint64_t g);
  bool all_in_heaps(unsigned parity) const noexcept;
  Status heap_two_phase(const ReduceRequest& request);
  static Block block_of(int rank, int ranks, std::size_t count, std::size_t element_bytes) noexcept;

  struct Found {
    Rows rows;
    std::size_t first = 0;  // position in rows at which the piece under way begins
    bool in_heap = false;
  };
  std::size_t own_index() const noexcept { return static_cast<std::size_t>(group_.rank()); }
  std::size_t piece_of(const Exchange& exchange, int from, int to) const noexcept;
  std::size_t exchange_piece_bytes(const Exchange& exchange) const noexcept;
  bool sends_anything(const Exchange& exchange) const noexcept;
  Status small_exchange(const Exchange& exchange, std::size_t step, bool boxed);
  void publish_small(const Exchange& exchange, std::size_t step, bool boxed);
  Status staged_exchange(const Exchange& exchange);
  Status staged_reduce_scatter(const Exchange& exchange, const ScatterReduction& reduction);
  Result<bool> begin_staged(const Exchange& exchange, std::size_t piece);
  Status stage_pieces(const Exchange& exchange, std::size_t first, std::size_t piece, std::uint64_t g);
  Status await_reusable(std::uint64_t g);
  Result<Rows> block_in_heap(const Exchange& exchange, int peer, std::size_t bytes);
  Status take_piece(const Exchange& exchange, const Rows& to, int from, std::size_t first, std::size_t bytes, std::uint64_t g,
                    std::size_t piece);
  Status find_sources(const Exchange& exchange, std::size_t first, std::size_t piece, std::uint64_t g);
  void reduce_range(const Rows& own, std::size_t first, std::size_t bytes, const ScatterReduction& reduction);
  Status end_staged(std::uint64_t end, const Exchange& exchange, bool in_heap);

  // Begins operation k_ + 1. Its publication line may be overwritten once every peer has published k_: a rank
  // that publishes operation k has finished reading operation k - 1, and so all of k - 2's parity.
  Status enter(std::uint64_t fingerprint) {
    if (confirmed_ != k_) [[unlikely]] {
      if (Status s = confirm_previous(); !s) return s;
    }
    ++k_;
    fault_.at(k_, 0);
    fingerprint_ = fingerprint;
    return {};
  }
  /// Does a large piece of work together with the threads that the rank lends, if any: body(part, begin, end) on [0, bytes).
  template <class Body>
  void share(std::size_t bytes, Body&& body) {
    base::LentThreads* threads = group_.threads();
    if (threads == nullptr || bytes < kSharedBytes) [[likely]] return body(0, std::size_t{0}, bytes);
    threads->share(bytes, body);
  }
  void hand_over(std::byte* to, const std::byte* from, std::size_t bytes) {
    share(bytes, [=](int, std::size_t begin, std::size_t end) { base::copy_handed_over(to + begin, from + begin, end - begin); });
  }
  /// The kernel over sources_, whose addresses are those of the first element.
  void reduce_large(std::byte* out, std::byte* out2, std::size_t count, std::size_t element_bytes, ReduceFn kernel, int divisor);

  Status confirm_previous();
  Status prepare_boxes() {
    if (boxes_ready_) [[likely]] return {};
    Status s = group_.commit_boxes();
    boxes_ready_ = s.is_ok();
    return s;
  }
  Status prepare_slots() {
    if (slots_ready_) [[likely]] return {};
    Status s = group_.commit_slots();
    slots_ready_ = s.is_ok();
    return s;
  }
  Publication& mine() noexcept { return own_publications_[k_ & 1]; }
  Publication& theirs(int rank) noexcept { return group_.control(rank).publications[k_ & 1]; }
  // A peer may be polling the line: it is stored in one burst, or the peer takes it away in between, which costs
  // two more hand-overs.
  void publish(const void* payload = nullptr, std::size_t bytes = 0) noexcept {
    Publication& p = mine();
    copy_short(p.payload, static_cast<const std::byte*>(payload), bytes);
    p.fingerprint = fingerprint_;
    p.sequence.store(k_, std::memory_order_release);  // OPERATION_PUBLISHED: fingerprint, payload, box
    ring_peers();
  }
  void ring_peers() noexcept {
    for (const Peer& p : peers_) p.control->doorbell.ring();
  }
  // Waits for the publication of `peer` and compares fingerprints.
  Status await_published(const Peer& peer) {
    const Publication& p = peer.control->publications[k_ & 1];
    if (p.sequence.load(std::memory_order_acquire) != k_) {  // OPERATION_PUBLISHED
      Status s = waiter_.wait([&] { return p.sequence.load(std::memory_order_acquire) == k_; });  // OPERATION_PUBLISHED
      if (!s) [[unlikely]] return waited_for(peer.rank, std::move(s));
    }
    if (p.fingerprint != fingerprint_) [[unlikely]] return mismatch(peer.rank, p.fingerprint);
    return {};
  }
  Status await_all_published();
  Status await_chunks(ProgressLine RankControl::* line, int rank, std::uint64_t chunks);
  void tell_chunks(ProgressLine RankControl::* line, std::uint64_t chunks) noexcept;

  [[gnu::cold]] Status waited_for(int rank, Status status) const;
  [[gnu::cold]] Status mismatch(int rank, std::uint64_t bits) const;

  DirectGroup group_;
  base::Waiter& waiter_;
  const base::FaultPoint& fault_;
  Publication* own_publications_;
  std::vector<Peer> peers_;
  std::vector<const void*> sources_;   // one per rank, in rank order
  std::vector<std::vector<const void*>> part_sources_;  // as sources_, for each part that a lent thread does
  std::vector<const std::byte*> inputs_;  // heap buffers of the operation under way, one per rank
  std::vector<std::byte*> outputs_;
  std::vector<Found> found_;  // peers' blocks of the exchange under way, by rank
  std::uint64_t fingerprint_ = 0;      // of operation k_
  std::uint64_t k_;                    // the operation under way, or the last one
  std::uint64_t confirmed_;            // every peer is known to have published up to here
  std::uint64_t g_;                    // chunks staged so far
  bool boxes_ready_ = false, slots_ready_ = false;  // the own ones are committed
  std::vector<std::uint64_t> seen_reduced_;  // per rank, last value read of its reduced line
};

}  // namespace slipring::collectives
