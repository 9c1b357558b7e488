#include "collectives/reduce_kernels_narrow.h"

#include <cstdint>

#include "slipring/float16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce_kernels_narrow.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"

#include "collectives/reduce_narrow-inl.h"
#include "collectives/reduce_pass-inl.h"

HWY_BEFORE_NAMESPACE();
namespace slipring::collectives {
namespace HWY_NAMESPACE {

template <class T>
ReduceFn narrow_integer_kernel_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:  // sums and products are the same bits with and without a sign
      return &reduce<std::uint8_t, Sum>;
    case ReduceOp::prod:
      return &reduce<InSixteenBits<std::uint8_t>, Prod>;
    case ReduceOp::min:
      return &reduce<T, Min>;
    case ReduceOp::max:
      return &reduce<T, Max>;
    case ReduceOp::avg:
      return &reduce<InSixteenBits<T>, AvgOfBytes>;
  }
  return nullptr;
}

template <class T, std::uint16_t kInfinity>
ReduceFn half_kernel_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return &reduce<T, Sum>;
    case ReduceOp::prod:
      return &reduce<T, Prod>;
    case ReduceOp::min:
      return &reduce<std::uint16_t, MinOfHalves<kInfinity>>;
    case ReduceOp::max:
      return &reduce<std::uint16_t, MaxOfHalves<kInfinity>>;
    case ReduceOp::avg:
      return &reduce<T, Avg>;
  }
  return nullptr;
}

ReduceFn narrow_kernel_for(DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::i8:
      return narrow_integer_kernel_of<std::int8_t>(op);
    case DType::u8:
      return narrow_integer_kernel_of<std::uint8_t>(op);
    case DType::f16:
      return half_kernel_of<float16, 0x7c00>(op);
    case DType::bf16:
      return half_kernel_of<bfloat16, 0x7f80>(op);
    default:
      return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace slipring::collectives
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace slipring::collectives {

HWY_EXPORT(narrow_kernel_for);

ReduceFn narrow_reduce_kernel(DType dtype, ReduceOp op) noexcept {
  return HWY_DYNAMIC_DISPATCH(narrow_kernel_for)(dtype, op);
}

}  // namespace slipring::collectives
#endif
