// What a reduction does to vectors of elements of one and two bytes; see reduce_ops-inl.h, which this
// extends.
//
// f16 and bf16 are combined in f32 over all sources and rounded once, to nearest even; their minimum and
// maximum are found among the bits. i8 and u8 go through 16 bits where no CPU has an instruction for bytes.
#if defined(SLIPRING_REDUCE_NARROW_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef SLIPRING_REDUCE_NARROW_TOGGLE
#undef SLIPRING_REDUCE_NARROW_TOGGLE
#else
#define SLIPRING_REDUCE_NARROW_TOGGLE
#endif

#include <algorithm>
#include <cstdint>

#include "collectives/reduce_ops-inl.h"
#include "hwy/highway.h"
#include "slipring/float16.h"

HWY_BEFORE_NAMESPACE();
namespace slipring::collectives {
namespace HWY_NAMESPACE {

#if ((HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL) && \
     !defined(HWY_DISABLE_F16C)) ||                                                     \
    (HWY_TARGET == HWY_NEON && (__ARM_FP & 2))
inline constexpr bool kCpuConvertsF16 = true;
#else
inline constexpr bool kCpuConvertsF16 = false;
#endif

// Rounds to nearest even with the result in the upper half; garbage below. A NaN must have its lower half
// clear, as all have that come out of `finish`, or the increment could carry it away.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> rounded_to_upper_half(D, hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto is_odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  return hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), is_odd);
}

struct BrainFormat {
  template <class D, class V16>
  static HWY_INLINE hn::Vec<D> widened(D d, V16 v) {
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(hn::RebindToUnsigned<D>(), v)));
  }
  template <class D>
  static HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, D>> narrowed(D d, hn::Vec<D> v) {
    return hn::TruncateTo(hn::Rebind<std::uint16_t, D>(), hn::ShiftRight<16>(rounded_to_upper_half(d, v)));
  }
};

// Without instructions of the CPU: the exponent's bias is changed by an exact product, or by a sum where the
// result is denormal and has to be rounded at a fixed place.
struct IeeeFormat {
  template <class D, class V16>
  static HWY_INLINE hn::Vec<D> widened(D d, V16 v) {
    if constexpr (kCpuConvertsF16) {
      return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), v));
    } else {
      const hn::RebindToUnsigned<D> du;
      const hn::RebindToSigned<D> di;
      const auto bits = hn::PromoteTo(du, v);
      const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000)));
      const auto shifted = hn::ShiftLeft<13>(hn::And(bits, hn::Set(du, 0x7fff)));
      const auto finite = hn::BitCast(du, hn::Mul(hn::BitCast(d, shifted), hn::Set(d, 0x1p112f)));
      const auto is_finite = hn::RebindMask(du, hn::Lt(hn::BitCast(di, shifted), hn::Set(di, 0x7c00 << 13)));
      const auto not_finite = hn::Or(shifted, hn::Set(du, 0x7f800000));
      return hn::BitCast(d, hn::Or(sign, hn::IfThenElse(is_finite, finite, not_finite)));
    }
  }
  template <class D>
  static HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, D>> narrowed(D d, hn::Vec<D> v) {
    const hn::Rebind<std::uint16_t, D> d16;
    if constexpr (kCpuConvertsF16) {
      return hn::BitCast(d16, hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), v));
    } else {
      const hn::RebindToUnsigned<D> du;
      const hn::RebindToSigned<D> di;
      const auto sign = hn::And(hn::ShiftRight<16>(hn::BitCast(du, v)), hn::Set(du, 0x8000));
      const auto magnitude = hn::And(hn::BitCast(di, v), hn::Set(di, 0x7fffffff));
      const auto is_odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(di, 1));
      const auto rebias = hn::Set(di, 0xfff - ((127 - 15) << 23));
      const auto normal = hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, rebias), is_odd));
      const auto shifted = hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f));
      const auto denormal = hn::Sub(hn::BitCast(di, shifted), hn::Set(di, 126 << 23));
      const auto is_nan = hn::Gt(magnitude, hn::Set(di, 0x7f800000));
      const auto large = hn::IfThenElse(is_nan, hn::Set(di, 0x7e00), hn::Set(di, 0x7c00));
      const auto is_denormal = hn::Lt(magnitude, hn::Set(di, (127 - 14) << 23));
      const auto is_large = hn::Gt(magnitude, hn::Set(di, ((127 + 16) << 23) - 1));
      const auto half = hn::IfThenElse(is_large, large, hn::IfThenElse(is_denormal, denormal, normal));
      return hn::TruncateTo(d16, hn::Or(sign, hn::BitCast(du, half)));
    }
  }
};

template <class Format>
struct HalfElement {
  using Wide = float;

  static HWY_INLINE Wide divisor(int number) { return static_cast<Wide>(number); }

  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::byte* from) {
    return Format::widened(d, Element<std::uint16_t>::load(hn::Rebind<std::uint16_t, D>(), from));
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, std::byte* to) {
    Element<std::uint16_t>::store(hn::Rebind<std::uint16_t, D>(), Format::narrowed(d, v), to);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> load_first(D d, std::size_t lanes, const std::byte* from) {
    const hn::Rebind<std::uint16_t, D> d16;
    return Format::widened(d, Element<std::uint16_t>::load_first(d16, lanes, from));
  }
  template <class D>
  static HWY_INLINE void store_first(D d, std::size_t lanes, hn::Vec<D> v, std::byte* to) {
    const hn::Rebind<std::uint16_t, D> d16;
    Element<std::uint16_t>::store_first(d16, lanes, Format::narrowed(d, v), to);
  }
};

template <>
struct Element<float16> : HalfElement<IeeeFormat>, VectorByVector<Element<float16>> {};

// Vectors of a size unknown have no AverageRound to rely on.
#if HWY_HAVE_SCALABLE
template <>
struct Element<bfloat16> : HalfElement<BrainFormat>, VectorByVector<Element<bfloat16>> {};
#else
// In a block the elements at even and at odd places are widened where they lie, without moving between lanes:
// a vector of elements gives two of floats.
template <>
struct Element<bfloat16> : HalfElement<BrainFormat> {
  static constexpr std::size_t kVectorsPerStore = 2;
  static constexpr bool kStoreBlockMakesOneNaN = true;

  template <class D, class V>
  static HWY_INLINE void load_block(D d, const std::byte* from, std::size_t step, V& a, V& b, V& c, V& e) {
    load_pair(d, from, a, b);
    load_pair(d, from + 2 * step, c, e);
  }
  template <class D, class V>
  static HWY_INLINE void store_block(D d, V a, V b, V c, V e, std::byte* to, std::size_t step) {
    store_pair(d, a, b, to);
    store_pair(d, c, e, to + 2 * step);
  }

 private:
  template <class D, class V>
  static HWY_INLINE void load_pair(D d, const std::byte* from, V& even, V& odd) {
    const hn::RebindToUnsigned<D> du;
    const auto both = Element<std::uint32_t>::load(du, from);
    even = hn::BitCast(d, hn::ShiftLeft<16>(both));
    odd = hn::BitCast(d, hn::And(both, hn::Set(du, 0xffff0000)));
  }
  template <class D, class V>
  static HWY_INLINE void store_pair(D, V even, V odd, std::byte* to) {
    const hn::RebindToUnsigned<D> du;
    const hn::Repartition<std::uint16_t, D> d16;
    const hn::Repartition<std::int16_t, D> di16;
    const auto even_bits = hn::BitCast(du, even), odd_bits = hn::BitCast(du, odd);
    const auto upper =
        hn::OddEven(hn::BitCast(d16, odd_bits), hn::BitCast(d16, hn::ShiftRight<16>(even_bits)));
    const auto lower =
        hn::OddEven(hn::BitCast(d16, hn::ShiftLeft<16>(odd_bits)), hn::BitCast(d16, even_bits));
    // The carry of lower + 0x7fff, and one more if the upper half is odd: the average keeps it in its highest
    // bit.
    const auto almost_half = hn::OrAnd(hn::Set(d16, 0x7ffe), upper, hn::Set(d16, 1));
    const auto up = hn::ShiftRight<15>(hn::AverageRound(lower, almost_half));
    const auto rounded = hn::Add(upper, up);
    const auto magnitude = hn::BitCast(di16, hn::And(rounded, hn::Set(d16, 0x7fff)));
    const auto is_nan = hn::RebindMask(d16, hn::Gt(magnitude, hn::Set(di16, 0x7f80)));
    Element<std::uint16_t>::store(d16, hn::IfThenElse(is_nan, hn::Set(d16, 0x7fc0), rounded), to);
  }
};

#endif

// Minimum and maximum of f16 (kInfinity 0x7c00) and bf16 (0x7f80). As signed integers with the magnitude of
// negative numbers inverted, halves are in order, -0 below +0, and each kind of NaN beyond its infinity.
// Moved by the number of NaN, one kind wraps around and joins the other; there a bound makes them all equal,
// so that the first stays.
template <std::uint16_t kInfinity>
struct OrderOfHalves {
  static constexpr bool kHasOneNaN = false;
  static constexpr std::int16_t kNaNs = 0x7fff - kInfinity;

  template <class D>
  static HWY_INLINE hn::Vec<hn::RebindToSigned<D>> ordered(D, hn::Vec<D> v) {
    const hn::RebindToSigned<D> di;
    const auto bits = hn::BitCast(di, v);
    return hn::Xor(bits, hn::And(hn::ShiftRight<15>(bits), hn::Set(di, 0x7fff)));
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> finish(D, hn::Vec<D> acc, std::uint16_t) {
    return acc;
  }
};

template <std::uint16_t kInfinity>
struct MinOfHalves : OrderOfHalves<kInfinity> {
  template <class D, class V>
  static HWY_INLINE V combine(D d, V acc, V next) {
    return hn::IfThenElse(hn::RebindMask(d, hn::Lt(rank(d, next), rank(d, acc))), next, acc);
  }

 private:
  using Order = OrderOfHalves<kInfinity>;
  template <class D, class V>
  static HWY_INLINE hn::Vec<hn::RebindToSigned<D>> rank(D d, V v) {
    const hn::RebindToSigned<D> di;
    constexpr std::int16_t kLargestNaN = -0x8000 + 2 * Order::kNaNs - 1;
    return hn::Max(hn::Add(Order::ordered(d, v), hn::Set(di, Order::kNaNs)), hn::Set(di, kLargestNaN));
  }
};

template <std::uint16_t kInfinity>
struct MaxOfHalves : OrderOfHalves<kInfinity> {
  template <class D, class V>
  static HWY_INLINE V combine(D d, V acc, V next) {
    return hn::IfThenElse(hn::RebindMask(d, hn::Gt(rank(d, next), rank(d, acc))), next, acc);
  }

 private:
  using Order = OrderOfHalves<kInfinity>;
  template <class D, class V>
  static HWY_INLINE hn::Vec<hn::RebindToSigned<D>> rank(D d, V v) {
    const hn::RebindToSigned<D> di;
    constexpr std::int16_t kSmallestNaN = 0x7fff - 2 * Order::kNaNs + 1;
    return hn::Min(hn::Sub(Order::ordered(d, v), hn::Set(di, Order::kNaNs)), hn::Set(di, kSmallestNaN));
  }
};

// A byte that is combined in 16 bits, of which the upper ones mean nothing.
template <class T>
struct InSixteenBits {
  T value;
};

template <class T>
struct Element<InSixteenBits<T>> : VectorByVector<Element<InSixteenBits<T>>> {
  using Wide = std::conditional_t<std::is_signed_v<T>, std::int16_t, std::uint16_t>;

  /// From 256 on every quotient of a byte is zero.
  static HWY_INLINE Wide divisor(int number) { return static_cast<Wide>(std::min(number, 256)); }

  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::byte* from) {
    return hn::PromoteTo(d, Element<T>::load(hn::Rebind<T, D>(), from));
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, std::byte* to) {
    Element<std::uint8_t>::store(hn::Rebind<std::uint8_t, D>(), narrowed(d, v), to);
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> load_first(D d, std::size_t lanes, const std::byte* from) {
    return hn::PromoteTo(d, Element<T>::load_first(hn::Rebind<T, D>(), lanes, from));
  }
  template <class D>
  static HWY_INLINE void store_first(D d, std::size_t lanes, hn::Vec<D> v, std::byte* to) {
    Element<std::uint8_t>::store_first(hn::Rebind<std::uint8_t, D>(), lanes, narrowed(d, v), to);
  }

 private:
  template <class D>
  static HWY_INLINE hn::Vec<hn::Rebind<std::uint8_t, D>> narrowed(D, hn::Vec<D> v) {
    return hn::TruncateTo(hn::Rebind<std::uint8_t, D>(), hn::BitCast(hn::RebindToUnsigned<D>(), v));
  }
};

// v / divisor for v <= 255 and 1 <= divisor <= 256, as v * ceil(2^16 / divisor) / 2^16: the excess of the
// factor is below divisor / 2^16, and v times that below what would reach the next quotient. The product has
// 24 bits and is formed in two steps.
template <class D, class V>
HWY_INLINE V divided_byte(D d, V v, int divisor) {
  const int factor = 0xffff / divisor + 1;
  const V high = hn::Set(d, static_cast<std::uint16_t>(factor >> 8));
  const V low = hn::Set(d, static_cast<std::uint16_t>(factor & 0xff));
  return hn::ShiftRight<8>(hn::Add(hn::Mul(v, high), hn::ShiftRight<8>(hn::Mul(v, low))));
}

struct AvgOfBytes : Sum {
  template <class D, class V>
  static HWY_INLINE V finish(D d, V acc, hn::TFromD<D> divisor) {
    const hn::RebindToUnsigned<D> du;
    if constexpr (std::is_signed_v<hn::TFromD<D>>) {
      const V wrapped = hn::ShiftRight<8>(hn::ShiftLeft<8>(acc));
      const V is_negative = hn::ShiftRight<15>(wrapped);
      const V q = hn::BitCast(d, divided_byte(du, hn::BitCast(du, hn::Abs(wrapped)), divisor));
      return hn::Sub(hn::Xor(q, is_negative), is_negative);
    } else {
      return divided_byte(du, hn::And(acc, hn::Set(d, 0xff)), divisor);
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace slipring::collectives
HWY_AFTER_NAMESPACE();

#endif  // SLIPRING_REDUCE_NARROW_TOGGLE
