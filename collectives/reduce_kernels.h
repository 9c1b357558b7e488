// Reduction kernels: SIMD with run-time dispatch, one kernel per (dtype, op).
//
// Sources are combined strictly in the order given, element by element, so that the result depends neither on
// timing nor on alignment, block boundaries or vector width: results are bit-identical for every split of the
// range and on every CPU. Any address works, aligned or not. Thread-safe, no allocation, no failure.
#pragma once

#include <cstddef>

#include "slipring/types.h"

namespace slipring::collectives {

/// dst[i] = op(...op(op(sources[0][i], sources[1][i]), sources[2][i])..., sources[n-1][i]) for i < count, 1
/// <= n. dst and, when not null, dst2 receive the same values (output and staging slot in one pass); each may
/// be identical to a source, but may not overlap one partially. dst is for this core to read again, dst2 is
/// taken for memory that another core reads next (base/copy.h).
///
/// avg divides the combined value by `divisor`, at least 1: floats divide, integers truncate toward zero.
/// Partial sums of an avg pass 1, the last pass the number of ranks. Other operators ignore it.
///
/// f16 and bf16 are combined in f32 and the result is rounded once, to nearest even.
///
/// Integers wrap (two's complement), also the sum of an avg before its division. A NaN that sum, prod or avg
/// yields is the one default quiet NaN, positive. min and max return the first NaN in source order, its bits
/// unchanged, and take -0 for smaller than +0.
using ReduceFn = void (*)(void* dst, void* dst2, const void* const* sources, int n, std::size_t count,
                          int divisor);

/// The kernel for this CPU; nullptr for types that are carried only (is_reducible). Resolve once per
/// communicator or operation, never per chunk.
ReduceFn reduce_kernel(DType dtype, ReduceOp op) noexcept;

/// Name of the instruction set in use, e.g. "AVX3".
const char* reduce_kernel_target() noexcept;

}  // namespace slipring::collectives
