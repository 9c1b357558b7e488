// Data path of publishing and awaiting. Budget per operation: one own line written, one line read per peer, one
// doorbell line looked at per peer; no system call, lock, allocation or clock read unless a wait is slow.
#include "collectives/direct/direct_collectives.h"

#include "base/status.h"

namespace slipring::collectives {

DirectCollectives::DirectCollectives(DirectGroup group, base::Waiter& waiter, const base::FaultPoint& fault)
    : group_(std::move(group)), waiter_(waiter), fault_(fault),
      own_publications_(group_.control(group_.rank()).publications),
      sources_(static_cast<std::size_t>(group_.ranks())), inputs_(sources_.size()), outputs_(sources_.size()),
      found_(sources_.size()), k_(group_.shape().start), confirmed_(k_), g_(k_),
      seen_reduced_(static_cast<std::size_t>(group_.ranks()), g_) {
  for (int r = 0; r < group_.ranks(); ++r)
    if (r != group_.rank()) peers_.push_back({&group_.control(r), r});
  if (group_.threads() != nullptr) part_sources_.assign(static_cast<std::size_t>(group_.threads()->parts()), sources_);
}

void DirectCollectives::reduce_large(std::byte* out, std::byte* out2, std::size_t count, std::size_t element_bytes, ReduceFn kernel,
                                     int divisor) {
  if (part_sources_.empty()) return kernel(out, out2, sources_.data(), group_.ranks(), count, divisor);
  share(count * element_bytes, [&](int part, std::size_t begin, std::size_t end) {
    std::vector<const void*>& sources = part_sources_[static_cast<std::size_t>(part)];
    for (std::size_t r = 0; r < sources.size(); ++r) sources[r] = static_cast<const std::byte*>(sources_[r]) + begin;
    kernel(out + begin, out2 == nullptr ? nullptr : out2 + begin, sources.data(), group_.ranks(), (end - begin) / element_bytes, divisor);
  });
}

Status DirectCollectives::await_all_published() {
  for (const Peer& peer : peers_)
    if (Status s = await_published(peer); !s) return s;
  confirmed_ = k_;
  return {};
}

void DirectCollectives::leave() noexcept {
  if (!enter(Fingerprint{.leaves = true}.pack())) return;  // somebody failed first: nobody awaits this rank
  publish();
}

// Only after an operation that did not wait for everybody.
Status DirectCollectives::confirm_previous() { return await_all_published(); }

Status DirectCollectives::rendezvous(std::uint64_t fingerprint) {
  if (Status s = enter(fingerprint); !s) return s;
  publish();
  return await_all_published();
}

Status DirectCollectives::await_chunks(ProgressLine RankControl::* line, int rank, std::uint64_t chunks) {
  std::atomic<std::uint64_t>& value = (group_.control(rank).*line).chunks;
  const auto reached = [&] {
    // CHUNK_STAGED / CHUNK_REDUCED: the slot's content is visible with the count. Differences, since the
    // counters may start anywhere.
    return static_cast<std::int64_t>(value.load(std::memory_order_acquire) - chunks) >= 0;
  };
  if (reached()) return {};
  Status s = waiter_.wait(reached);
  return s ? Status() : waited_for(rank, std::move(s));
}

void DirectCollectives::tell_chunks(ProgressLine RankControl::* line, std::uint64_t chunks) noexcept {
  // CHUNK_STAGED / CHUNK_REDUCED: what was written to the slot, and what was read from the peers' slots, is done.
  (group_.control(group_.rank()).*line).chunks.store(chunks, std::memory_order_release);
  ring_peers();
}

Status DirectCollectives::waited_for(int rank, Status status) const {
  const Fingerprint f = Fingerprint::unpack(fingerprint_);
  return std::move(status).with(fmt::format("rank {} waited for rank {} in operation {}, {}, transport shm",
                                            group_.rank(), rank, k_ - group_.shape().start, f.to_string()));
}

Status DirectCollectives::mismatch(int rank, std::uint64_t bits) const {
  const Fingerprint own = Fingerprint::unpack(fingerprint_);
  const Fingerprint other = Fingerprint::unpack(bits);
  const std::uint64_t operation = k_ - group_.shape().start;
  if (other.leaves)
    return base::error(StatusCode::closed, "operation {}: rank {} has closed the communicator, but rank {} called {}",
                       operation, rank, group_.rank(), own.to_string());
  return base::error(StatusCode::mismatch, "operation {}: rank {} called {}, but rank {} called {}; every rank must "
                     "call the same operations in the same order with equal arguments",
                     operation, group_.rank(), own.to_string(), rank, other.to_string());
}

}  // namespace slipring::collectives
