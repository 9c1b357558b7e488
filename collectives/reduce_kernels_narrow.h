// Kernels of elements of one and two bytes; a file of their own so that it compiles beside the wide ones.
#pragma once

#include "collectives/reduce_kernels.h"

namespace slipring::collectives {

/// As reduce_kernel, of i8, u8, f16 and bf16; nullptr for other types.
ReduceFn narrow_reduce_kernel(DType dtype, ReduceOp op) noexcept;

}  // namespace slipring::collectives
