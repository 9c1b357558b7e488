// Data path of the one-shot all_reduce of more than one line. Budget per operation: the input is stored once, in the
// box of this parity, and read once by every peer; the output is stored once. (Up to 48 bytes: see the header.)
#include "collectives/direct/direct_collectives.h"

namespace slipring::collectives {

Status DirectCollectives::one_shot_boxed(const ReduceRequest& request) {
  if (Status s = enter(request.fingerprint); !s) return s;
  const unsigned parity = k_ & 1;
  base::copy_handed_over(group_.box(group_.rank(), parity), request.in, request.count * request.element_bytes);
  publish();
  for (const Peer& peer : peers_) {
    if (Status s = await_published(peer); !s) return s;
    sources_[static_cast<std::size_t>(peer.rank)] = group_.box(peer.rank, parity);
  }
  return reduce_sources(request);
}

}  // namespace slipring::collectives
