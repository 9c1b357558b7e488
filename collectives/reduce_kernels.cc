// Loops of the reduction kernels, compiled once per instruction set.
//
// Words: a block is four vectors, the unit of the main loop; each block is loaded from every source, combined
// in registers and stored once, so a pass over n sources stores dst once and has no working set of its own.
// A piece is what stays in L2 until it has been copied on.
// Budget: no system calls, allocations or locks; each byte of every source is read once, each byte of dst
// (and dst2) written once. One indirect call per pass.
#include "collectives/reduce_kernels.h"

#include <cstdint>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce_kernels.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"

#include "base/copy.h"
#include "collectives/reduce_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace slipring::collectives {
namespace HWY_NAMESPACE {

// From here on the stores are worth aligning; below, a head costs more than split lines
// (reduce_kernels_bench).
inline constexpr std::size_t kAlignBytes = 1024;
// dst2 is mostly a slot that a peer read last: from kByPiecesFrom on it is copied out of dst piece by piece
// with the stores that suit such lines, up to 6 times faster than from registers. Smaller pieces than these
// wait too often for their last lines (memcpy_bench sum_handed_over).
inline constexpr std::size_t kByPiecesFrom = 1024;
inline constexpr std::size_t kPieceBytes = 65536;

// The hot case: pointers in registers, no loop over sources.
struct PairOfSources {
  const std::byte* first;
  const std::byte* second;

  template <class Op, class D, class V, class Load>
  HWY_INLINE V combined(D d, std::size_t offset, Load load) const {
    return Op::combine(d, load(first + offset), load(second + offset));
  }
  template <class T, class Op, class D, class V>
  HWY_INLINE void combined_block(D d, std::size_t offset, std::size_t step, V& a, V& b, V& c, V& e) const {
    const std::byte* p = first + offset;
    const std::byte* q = second + offset;
    a = Op::combine(d, Element<T>::load(d, p), Element<T>::load(d, q));
    b = Op::combine(d, Element<T>::load(d, p + step), Element<T>::load(d, q + step));
    c = Op::combine(d, Element<T>::load(d, p + 2 * step), Element<T>::load(d, q + 2 * step));
    e = Op::combine(d, Element<T>::load(d, p + 3 * step), Element<T>::load(d, q + 3 * step));
  }
};

struct ListOfSources {
  const void* const* list;
  std::size_t skip;  // bytes before the pass begins
  int n;

  HWY_INLINE const std::byte* at(int k, std::size_t offset) const {
    return static_cast<const std::byte*>(list[k]) + skip + offset;
  }
  template <class Op, class D, class V, class Load>
  HWY_INLINE V combined(D d, std::size_t offset, Load load) const {
    V acc = load(at(0, offset));
    for (int k = 1; k < n; ++k) acc = Op::combine(d, acc, load(at(k, offset)));
    return acc;
  }
  template <class T, class Op, class D, class V>
  HWY_INLINE void combined_block(D d, std::size_t offset, std::size_t step, V& a, V& b, V& c, V& e) const {
    const std::byte* p = at(0, offset);
    a = Element<T>::load(d, p);
    b = Element<T>::load(d, p + step);
    c = Element<T>::load(d, p + 2 * step);
    e = Element<T>::load(d, p + 3 * step);
    for (int k = 1; k < n; ++k) {
      p = at(k, offset);
      a = Op::combine(d, a, Element<T>::load(d, p));
      b = Op::combine(d, b, Element<T>::load(d, p + step));
      c = Op::combine(d, c, Element<T>::load(d, p + 2 * step));
      e = Op::combine(d, e, Element<T>::load(d, p + 3 * step));
    }
  }
};

struct Outputs {
  std::byte* dst;
  std::byte* dst2;  // may be null
};

// Reduces elements [at, at + count) of the pass; one instance per (element type, operator, kind of sources).
template <class T, class Op, class Sources>
class Pass {
  using E = Element<T>;
  using Wide = typename E::Wide;
  using D = hn::ScalableTag<Wide>;
  using V = hn::Vec<D>;

 public:
  HWY_INLINE Pass(const Sources& sources, const Outputs& out, int divisor)
      : sources_(sources), out_(out), divisor_(static_cast<Wide>(divisor)) {}

  HWY_INLINE void run(std::size_t count) {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    std::size_t done = 0;
    if (count * sizeof(T) >= kAlignBytes) {
      done = elements_to_alignment(lanes);
      if (done != 0) partial(0, done);
    }
    for (; count - done >= 4 * lanes; done += 4 * lanes) block(done * sizeof(T), lanes * sizeof(T));
    for (; count - done >= lanes; done += lanes) whole(d, done * sizeof(T));
    if (count != done) partial(done, count - done);
  }

 private:
  // Elements before dst is aligned to a vector.
  HWY_INLINE std::size_t elements_to_alignment(std::size_t lanes) const {
    const std::size_t vector_bytes = lanes * sizeof(T);
    const std::size_t past = reinterpret_cast<std::uintptr_t>(out_.dst) % vector_bytes;
    return past == 0 || past % sizeof(T) != 0 ? 0 : (vector_bytes - past) / sizeof(T);
  }

  HWY_INLINE void block(std::size_t offset, std::size_t step) {
    const D d;
    V a, b, c, e;
    sources_.template combined_block<T, Op>(d, offset, step, a, b, c, e);
    a = Op::finish(d, a, divisor_);
    b = Op::finish(d, b, divisor_);
    c = Op::finish(d, c, divisor_);
    e = Op::finish(d, e, divisor_);
    store_block(d, a, b, c, e, out_.dst + offset, step);
    if (out_.dst2 != nullptr) store_block(d, a, b, c, e, out_.dst2 + offset, step);
  }

  HWY_INLINE static void store_block(D d, V a, V b, V c, V e, std::byte* to, std::size_t step) {
    E::store(d, a, to);
    E::store(d, b, to + step);
    E::store(d, c, to + 2 * step);
    E::store(d, e, to + 3 * step);
  }

  template <class AnyD>
  HWY_INLINE void whole(AnyD d, std::size_t offset) {
    const auto v = sources_.template combined<Op, AnyD, hn::Vec<AnyD>>(
        d, offset, [d](const std::byte* from) HWY_ATTR { return E::load(d, from); });
    const auto result = Op::finish(d, v, divisor_);
    E::store(d, result, out_.dst + offset);
    if (out_.dst2 != nullptr) E::store(d, result, out_.dst2 + offset);
  }

  // 1 <= count < lanes; touches nothing beyond.
  HWY_INLINE void partial(std::size_t at, std::size_t count) {
    if constexpr (kMaskedTails) {
      const D d;
      const std::size_t offset = at * sizeof(T);
      const auto v = sources_.template combined<Op, D, V>(
          d, offset, [d, count](const std::byte* from) HWY_ATTR { return E::load_first(d, count, from); });
      const auto result = Op::finish(d, v, divisor_);
      E::store_first(d, count, result, out_.dst + offset);
      if (out_.dst2 != nullptr) E::store_first(d, count, result, out_.dst2 + offset);
    } else {
      halves<hn::MaxLanes(D()) / 2>(at * sizeof(T), count);
    }
  }

  // The binary digits of count, largest first: one narrower vector for each that is set.
  template <std::size_t kLanes>
  HWY_INLINE void halves(std::size_t offset, std::size_t count) {
    if constexpr (kLanes > 0) {
      if ((count & kLanes) != 0) {
        whole(hn::CappedTag<Wide, kLanes>(), offset);
        offset += kLanes * sizeof(T);
      }
      halves<kLanes / 2>(offset, count);
    }
  }

  Sources sources_;
  Outputs out_;
  Wide divisor_;
};

template <class T, class Op>
HWY_INLINE void run_pass(const Outputs& out, const void* const* sources, std::size_t skip, int n,
                         std::size_t count, int divisor) {
  if (n == 2) {
    const PairOfSources pair{static_cast<const std::byte*>(sources[0]) + skip,
                             static_cast<const std::byte*>(sources[1]) + skip};
    Pass<T, Op, PairOfSources>(pair, out, divisor).run(count);
  } else {
    Pass<T, Op, ListOfSources>(ListOfSources{sources, skip, n}, out, divisor).run(count);
  }
}

template <class T, class Op>
void reduce(void* dst, void* dst2, const void* const* sources, int n, std::size_t count, int divisor) {
  if constexpr (std::is_same_v<Op, Avg>) {
    if (divisor == 1) return reduce<T, Sum>(dst, dst2, sources, n, count, divisor);
  }
  Outputs out{static_cast<std::byte*>(dst), static_cast<std::byte*>(dst2)};
  std::byte* copy = nullptr;
  std::size_t piece = count;
  if (dst2 != nullptr && count * sizeof(T) >= kByPiecesFrom) {
    copy = std::exchange(out.dst2, nullptr);
    piece = kPieceBytes / sizeof(T);
  }
  // One iteration unless by pieces, so that the pass is compiled once and a tiny count pays for no call.
  for (std::size_t at = 0;;) {
    const std::size_t now = count - at < piece ? count - at : piece;
    run_pass<T, Op>(out, sources, at * sizeof(T), n, now, divisor);
    if (copy != nullptr) {
      base::copy_handed_over(copy, out.dst, now * sizeof(T));
      copy += now * sizeof(T);
    }
    at += now;
    if (at == count) return;
    out.dst += now * sizeof(T);
  }
}

template <class T>
ReduceFn kernel_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return &reduce<T, Sum>;
    case ReduceOp::prod:
      return &reduce<T, Prod>;
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
      return kernel_of<std::int32_t>(op);
    case DType::i64:
      return kernel_of<std::int64_t>(op);
  }
  return nullptr;
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
