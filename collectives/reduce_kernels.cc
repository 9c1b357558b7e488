// The table of kernels, and those of 32-bit and 64-bit elements.
#include "collectives/reduce_kernels.h"

#include <cstdint>

#include "collectives/reduce_kernels_narrow.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce_kernels.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"

#include "collectives/reduce_ops-inl.h"
#include "collectives/reduce_pass-inl.h"

HWY_BEFORE_NAMESPACE();
namespace slipring::collectives {
namespace HWY_NAMESPACE {

// Sums and products of integers are the same bits in U, their unsigned type.
template <class T, class U = T>
ReduceFn kernel_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return &reduce<U, Sum>;
    case ReduceOp::prod:
      return &reduce<U, Prod>;
    case ReduceOp::min:
      return &reduce<T, Min>;
    case ReduceOp::max:
      return &reduce<T, Max>;
    case ReduceOp::avg:
      return &reduce<T, Avg>;
  }
  return nullptr;
}

ReduceFn kernel_for(DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::f32:
      return kernel_of<float>(op);
    case DType::f64:
      return kernel_of<double>(op);
    case DType::i32:
      return kernel_of<std::int32_t, std::uint32_t>(op);
    case DType::i64:
      return kernel_of<std::int64_t, std::uint64_t>(op);
    case DType::u32:
      return kernel_of<std::uint32_t>(op);
    case DType::u64:
      return kernel_of<std::uint64_t>(op);
    default:
      return narrow_reduce_kernel(dtype, op);
  }
}

const char* target_name() {
  return hwy::TargetName(HWY_TARGET);
}

}  // namespace HWY_NAMESPACE
}  // namespace slipring::collectives
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace slipring::collectives {

HWY_EXPORT(kernel_for);
HWY_EXPORT(target_name);

ReduceFn reduce_kernel(DType dtype, ReduceOp op) noexcept {
  return HWY_DYNAMIC_DISPATCH(kernel_for)(dtype, op);
}

const char* reduce_kernel_target() noexcept {
  return HWY_DYNAMIC_DISPATCH(target_name)();
}

}  // namespace slipring::collectives
#endif
