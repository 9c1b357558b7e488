// Data path of the direct reduce to one rank: all_reduce without the results that nobody asked for.
#include "collectives/direct/direct_collectives.h"

namespace slipring::collectives {

Status DirectCollectives::reduce(const ReduceRequest& request) {
  const std::size_t bytes = request.count * request.element_bytes;
  if (bytes > group_.shape().box_bytes) return all_reduce_two_phase(request);
  const bool boxed = bytes > kPublicationBytes, is_root = request.root == group_.rank();
  if (!is_root && boxed)
    if (Status s = prepare_boxes(); !s) return s;
  if (Status s = enter(request.fingerprint); !s) return s;
  const unsigned parity = k_ & 1;
  if (!is_root && boxed) base::copy_handed_over(group_.box(group_.rank(), parity), request.in, bytes);
  publish(request.in, is_root || boxed ? 0 : bytes);
  if (!is_root) return {};
  for (const Peer& peer : peers_) {
    if (Status s = await_published(peer); !s) return s;
    sources_[static_cast<std::size_t>(peer.rank)] =
        boxed ? group_.box(peer.rank, parity) : peer.control->publications[parity].payload;
  }
  return reduce_sources(request);
}

}  // namespace slipring::collectives
