// Loops of the reduction kernels, compiled once per instruction set and included by the files that
// instantiate them: reduce_kernels.cc and reduce_kernels_narrow.cc.
//
// Words: a block is four vectors, the unit of the main loop; each block is loaded from every source, combined
// in registers and stored once, so a pass over n sources stores dst once and has no working set of its own.
// A piece is what stays in L2 until it has been copied on. T is an element type as Element<T> describes it.
// Budget: no system calls, allocations or locks; each byte of every source is read once, each byte of dst
// (and dst2) written once. One indirect call per pass.
#if defined(SLIPRING_REDUCE_PASS_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef SLIPRING_REDUCE_PASS_TOGGLE
#undef SLIPRING_REDUCE_PASS_TOGGLE
#else
#define SLIPRING_REDUCE_PASS_TOGGLE
#endif

#include <cstdint>
#include <utility>

#include "base/copy.h"
#include "collectives/reduce_ops-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace slipring::collectives {
namespace HWY_NAMESPACE {

// Vectors of one lane gain nothing from blocks, and take minutes to compile them under sanitizers.
inline constexpr bool kHasBlocks = HWY_TARGET != HWY_SCALAR;
// From here on the stores are worth aligning; below, a head costs more than split lines
// (reduce_kernels_bench).
inline constexpr std::size_t kAlignBytes = 1024;
// dst2 is mostly a slot that a peer read last: from kByPiecesFrom on it is copied out of dst piece by piece
// with the stores that suit such lines, up to 6 times faster than from registers. Smaller pieces than these
// wait too often for their last lines (memcpy_bench sum_handed_over).
inline constexpr std::size_t kByPiecesFrom = 1024;
inline constexpr std::size_t kPieceBytes = 65536;

template <class T, class Op, class D, class V>
HWY_INLINE void combine_block(D d, const std::byte* from, std::size_t step, V& a, V& b, V& c, V& e) {
  V next_a, next_b, next_c, next_e;
  Element<T>::load_block(d, from, step, next_a, next_b, next_c, next_e);
  a = Op::combine(d, a, next_a);
  b = Op::combine(d, b, next_b);
  c = Op::combine(d, c, next_c);
  e = Op::combine(d, e, next_e);
}

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
    Element<T>::load_block(d, first + offset, step, a, b, c, e);
    combine_block<T, Op>(d, second + offset, step, a, b, c, e);
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
    Element<T>::load_block(d, at(0, offset), step, a, b, c, e);
    for (int k = 1; k < n; ++k) combine_block<T, Op>(d, at(k, offset), step, a, b, c, e);
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
      : sources_(sources), out_(out), divisor_(E::divisor(divisor)) {}

  HWY_INLINE void run(std::size_t count) {
    const D d;
    const std::size_t lanes = hn::Lanes(d);
    std::size_t done = 0;
    if (count * sizeof(T) >= kAlignBytes) {
      const std::size_t head = elements_to_alignment(lanes);
      done = head % lanes;
      if (done != 0) partial(0, done);
      if constexpr (E::kVectorsPerStore > 1) {
        for (; done < head; done += lanes) whole(d, done * sizeof(T));
      }
    }
    if constexpr (kHasBlocks) {
      for (; count - done >= 4 * lanes; done += 4 * lanes) block(done * sizeof(T), lanes * sizeof(T));
    }
    for (; count - done >= lanes; done += lanes) whole(d, done * sizeof(T));
    if (count != done) partial(done, count - done);
  }

 private:
  // Elements before dst is aligned to what a block is stored in.
  HWY_INLINE std::size_t elements_to_alignment(std::size_t lanes) const {
    const std::size_t vector_bytes = E::kVectorsPerStore * lanes * sizeof(T);
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
    if constexpr (Op::kHasOneNaN && !E::kStoreBlockMakesOneNaN) {
      a = with_canonical_nan(d, a);
      b = with_canonical_nan(d, b);
      c = with_canonical_nan(d, c);
      e = with_canonical_nan(d, e);
    }
    E::store_block(d, a, b, c, e, out_.dst + offset, step);
    if (out_.dst2 != nullptr) E::store_block(d, a, b, c, e, out_.dst2 + offset, step);
  }

  template <class AnyD>
  HWY_INLINE hn::Vec<AnyD> finished(AnyD d, hn::Vec<AnyD> v) const {
    v = Op::finish(d, v, divisor_);
    if constexpr (Op::kHasOneNaN) v = with_canonical_nan(d, v);
    return v;
  }

  template <class AnyD>
  HWY_INLINE void whole(AnyD d, std::size_t offset) {
    const auto v = sources_.template combined<Op, AnyD, hn::Vec<AnyD>>(
        d, offset, [d](const std::byte* from) HWY_ATTR { return E::load(d, from); });
    const auto result = finished(d, v);
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
      const auto result = finished(d, v);
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

}  // namespace HWY_NAMESPACE
}  // namespace slipring::collectives
HWY_AFTER_NAMESPACE();

#endif  // SLIPRING_REDUCE_PASS_TOGGLE
