// Data path of the direct broadcast. Budget per chunk: the root copies it once into its staging slot, every other
// rank copies it out once. A small one lies in the publication line or the box: one line is told.
#include <algorithm>
#include <cstring>

#include "base/copy.h"
#include "collectives/direct/direct_collectives.h"

namespace slipring::collectives {

Status DirectCollectives::broadcast(void* buffer, std::size_t bytes, int root, std::uint64_t fingerprint) {
  if (Status s = enter(fingerprint); !s) return s;
  auto* data = static_cast<std::byte*>(buffer);
  const bool is_root = root == group_.rank();
  if (bytes <= group_.shape().box_bytes) {
    const unsigned parity = k_ & 1;
    const bool boxed = bytes > kPublicationBytes;
    if (is_root && boxed) base::copy_handed_over(group_.box(root, parity), data, bytes);
    publish(data, is_root && !boxed ? bytes : 0);
    if (is_root) return {};
    if (Status s = await_published({&group_.control(root), root}); !s) return s;
    if (bytes != 0) std::memcpy(data, boxed ? group_.box(root, parity) : theirs(root).payload, bytes);
    return {};
  }
  publish();
  return is_root ? broadcast_from_root(data, bytes) : broadcast_to_peer(data, bytes, root);
}

Status DirectCollectives::broadcast_from_root(const std::byte* buffer, std::size_t bytes) {
  const std::size_t chunk = group_.shape().chunk_bytes;
  for (std::size_t done = 0; done < bytes; done += chunk) {
    for (int r = 0; r < group_.ranks(); ++r) {
      if (r == group_.rank() || static_cast<std::int64_t>(seen_reduced_[r] - (g_ - 1)) >= 0) continue;
      if (Status s = await_chunks(&RankControl::reduced, r, g_ - 1); !s) return s;
      seen_reduced_[r] = g_ - 1;
    }
    fault_.at(k_, done / chunk);
    base::copy_handed_over(group_.slot(group_.rank(), g_), buffer + done, std::min(chunk, bytes - done));
    ++g_;
    tell_chunks(&RankControl::staged, g_);
  }
  tell_chunks(&RankControl::reduced, g_);
  return {};
}

Status DirectCollectives::broadcast_to_peer(std::byte* buffer, std::size_t bytes, int root) {
  if (Status s = await_published({&group_.control(root), root}); !s) return s;
  const std::size_t chunk = group_.shape().chunk_bytes;
  for (std::size_t done = 0; done < bytes; done += chunk) {
    if (Status s = await_chunks(&RankControl::staged, root, g_ + 1); !s) return s;
    fault_.at(k_, done / chunk);
    std::memcpy(buffer + done, group_.slot(root, g_), std::min(chunk, bytes - done));
    ++g_;
    tell_chunks(&RankControl::reduced, g_);
  }
  tell_chunks(&RankControl::staged, g_);
  return {};
}

}  // namespace slipring::collectives
