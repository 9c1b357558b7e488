// Data path of the one-shot all_reduce of more than one line. Budget per operation: the input is stored once, in the
// box of this parity, and read once by every peer; the output is stored once. (Up to 48 bytes: see the header.)
#include "collectives/direct/direct_collectives.h"

namespace slipring::collectives {
namespace {
constexpr std::size_t kFetchAheadBytes = 2048;
}  // namespace

Status DirectCollectives::one_shot_boxed(const ReduceRequest& request) {
  if (Status s = prepare_boxes(); !s) [[unlikely]] return s;
  if (Status s = enter(request.fingerprint); !s) return s;
  const unsigned parity = k_ & 1;
  base::copy_handed_over(group_.box(group_.rank(), parity), request.in, request.count * request.element_bytes);
  publish();
  for (const Peer& peer : peers_) {
    if (Status s = await_published(peer); !s) return s;
    sources_[static_cast<std::size_t>(peer.rank)] = group_.box(peer.rank, parity);
  }
  Status status = reduce_sources(request);
  // As with the line: the other box is free again, and fetching its lines back now spares the next operation, which is
  // likely of the same size, a far hand-over. Only for sizes at which that is felt.
  const std::size_t bytes = request.count * request.element_bytes;
  if (bytes <= kFetchAheadBytes) {
    const std::byte* next = group_.box(group_.rank(), parity ^ 1);
    for (std::size_t line = 0; line < bytes; line += 64) base::request_ownership(next + line);
  }
  return status;
}

}  // namespace slipring::collectives
