// Data path of the one-shot all_reduce. Budget per operation: the input is stored once (in the publication line up
// to 48 bytes, else in the box of this parity) and read once by every peer; the output is stored once.
#include <cstring>

#include "collectives/copy_kernels.h"
#include "collectives/direct/direct_collectives.h"

namespace slipring::collectives {

Status DirectCollectives::one_shot_inline(const ReduceRequest& request) {
  if (Status s = enter(request.fingerprint); !s) return s;
  std::memcpy(mine().payload, request.in, request.count * request.element_bytes);
  publish();
  return reduce_published(request, false);
}

Status DirectCollectives::one_shot_boxed(const ReduceRequest& request) {
  if (Status s = enter(request.fingerprint); !s) return s;
  copy_prefetched(group_.box(group_.rank(), k_ & 1), request.in, request.count * request.element_bytes);
  publish();
  return reduce_published(request, true);
}

Status DirectCollectives::reduce_published(const ReduceRequest& request, bool boxed) {
  const unsigned parity = k_ & 1;
  for (int r = 0; r < group_.ranks(); ++r) {
    if (r == group_.rank()) {
      sources_[r] = request.in;
      continue;
    }
    if (Status s = await_published(r); !s) return s;
    sources_[r] = boxed ? group_.box(r, parity) : group_.control(r).publications[parity].payload;
  }
  confirmed_ = k_;
  request.kernel(request.out, nullptr, sources_.data(), group_.ranks(), request.count, {.divisor = request.divisor});
  // The line of the next operation was last read by peers that have all moved on: fetch it back meanwhile.
  __builtin_prefetch(&group_.control(group_.rank()).publications[parity ^ 1], 1);
  return {};
}

}  // namespace slipring::collectives
