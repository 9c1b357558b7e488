// Reduction and copy kernels: SIMD with run-time dispatch, one table entry per (dtype, op).
//
// Sources are combined strictly in the order given, element by element, so that the result depends neither on
// timing nor on alignment, block boundaries or vector width: results are bit-identical for every split of the
// range. Pointers need the element's natural alignment at most by value (any address works). Thread-safe, no
// allocation, no failure.
#pragma once

#include <cstddef>

#include "slipring/types.h"

namespace slipring::collectives {

/// What one reduction pass does besides combining.
struct ReduceOptions {
  int divisor = 1;          ///< avg: divides the combined value (floating types divide, integers toward zero)
  bool nontemporal = false; ///< hint: dst is not read again soon, so its stores may go around the cache
};

/// dst[i] = op(sources[0][i], sources[1][i], ..., sources[n-1][i]) for i < count, 1 <= n.
/// dst and, when not null, dst2 receive the same values (output and staging slot in one pass); each may be
/// identical to a source, but may not overlap one partially. dst2 is always stored through the cache.
using ReduceFn = void (*)(void* dst, void* dst2, const void* const* sources, int n, std::size_t count,
                          const ReduceOptions& options);

/// The kernels for this CPU. Resolve once per communicator or operation, never per chunk.
/// avg is sum with a divisor.
ReduceFn reduce_kernel(DType dtype, ReduceOp op) noexcept;

/// memcpy variants whose stores suit where the destination lines are.
/// copy_plain: lines in this core's cache or to be read again soon by this core.
/// copy_nontemporal: stores that go around the cache; destination any alignment.
/// copy_prefetched: destination lines were last read by another core: asks for ownership ahead of the stores.
void copy_plain(void* dst, const void* src, std::size_t bytes) noexcept;
void copy_nontemporal(void* dst, const void* src, std::size_t bytes) noexcept;
void copy_prefetched(void* dst, const void* src, std::size_t bytes) noexcept;

/// Name of the instruction set in use, e.g. "AVX3_ZEN4".
const char* reduce_kernel_target() noexcept;

}  // namespace slipring::collectives
