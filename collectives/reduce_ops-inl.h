// What a reduction does to one vector: how an element type is loaded, stored and widened (Element<T>), and
// how two vectors combine and a result is finished (Sum, Prod, Min, Max, Avg). No loops, no pointers'
// arithmetic.
//
// Compiled once per instruction set (Highway's foreach_target), hence the toggle instead of a guard. A new
// element type is one Element specialisation when it is combined in a wider type, nothing otherwise; then its
// row in the table of reduce_kernels.cc. Every operation here is a function of its lanes only, so results do
// not depend on the vector width.
#if defined(SLIPRING_REDUCE_OPS_TOGGLE) == defined(HWY_TARGET_TOGGLE)
#ifdef SLIPRING_REDUCE_OPS_TOGGLE
#undef SLIPRING_REDUCE_OPS_TOGGLE
#else
#define SLIPRING_REDUCE_OPS_TOGGLE
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace slipring::collectives {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Masked loads and stores touch only the lanes of the mask on these targets. Elsewhere Highway emulates them
// with whole-vector accesses (SSE4, NEON) or the CPU is slow at masked stores (AVX2 before Zen 5).
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_HAVE_SCALABLE
inline constexpr bool kMaskedTails = true;
#else
inline constexpr bool kMaskedTails = false;
#endif

// How a block of four vectors is loaded and stored; an element type that has a faster way declares its own.
template <class E>
struct VectorByVector {
  static constexpr std::size_t kVectorsPerStore = 1;
  static constexpr bool kStoreBlockMakesOneNaN = false;

  template <class D, class V>
  static HWY_INLINE void load_block(D d, const std::byte* from, std::size_t step, V& a, V& b, V& c, V& e) {
    a = E::load(d, from);
    b = E::load(d, from + step);
    c = E::load(d, from + 2 * step);
    e = E::load(d, from + 3 * step);
  }
  template <class D, class V>
  static HWY_INLINE void store_block(D d, V a, V b, V c, V e, std::byte* to, std::size_t step) {
    E::store(d, a, to);
    E::store(d, b, to + step);
    E::store(d, c, to + 2 * step);
    E::store(d, e, to + 3 * step);
  }
};

// One lane, which goes through memcpy: scalar intrinsics dereference their pointer, which may be misaligned.
template <class D>
constexpr bool is_single() {
#if HWY_HAVE_SCALABLE
  return false;
#else
  return hn::MaxLanes(D()) == 1;
#endif
}

template <class T>
struct Element : VectorByVector<Element<T>> {
  using Wide = T;  // the type in which values are combined

  static HWY_INLINE Wide divisor(int number) { return static_cast<Wide>(number); }

  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const std::byte* from) {
    if constexpr (is_single<D>()) {
      T value;
      std::memcpy(&value, from, sizeof(T));
      return hn::Set(d, value);
    } else {
      return hn::LoadU(d, reinterpret_cast<const T*>(from));
    }
  }
  template <class D>
  static HWY_INLINE void store(D d, hn::Vec<D> v, std::byte* to) {
    if constexpr (is_single<D>()) {
      const T value = hn::GetLane(v);
      std::memcpy(to, &value, sizeof(T));
    } else {
      hn::StoreU(v, d, reinterpret_cast<T*>(to));
    }
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> load_first(D d, std::size_t lanes, const std::byte* from) {
    return hn::MaskedLoad(hn::FirstN(d, lanes), d, reinterpret_cast<const T*>(from));
  }
  template <class D>
  static HWY_INLINE void store_first(D d, std::size_t lanes, hn::Vec<D> v, std::byte* to) {
    hn::BlendedStore(v, hn::FirstN(d, lanes), d, reinterpret_cast<T*>(to));
  }
};

// When two NaN meet in an addition, which payload survives depends on the operand order that the compiler
// picked for that loop, and the sign of a fresh NaN depends on the CPU. One fixed NaN keeps results identical
// for every split and on every node; it costs two cheap instructions per stored vector
// (reduce_kernels_bench).
template <class D, class V>
HWY_INLINE V with_canonical_nan(D d, V v) {
  using T = hn::TFromD<D>;
  if constexpr (std::is_floating_point_v<T>) {
    return hn::IfThenElse(hn::IsNaN(v), hn::Set(d, std::numeric_limits<T>::quiet_NaN()), v);
  } else {
    return v;
  }
}

// v / divisor, truncated, for 2 <= divisor <= 2^31. The quotient in double is off by at most 2^11 / divisor +
// 1, so what it leaves has few bits, double holds both numbers of the second division exactly, and its
// quotient is right. Both quotients are truncated on their own, so the sum is one too far from zero when the
// last remainder and v differ in sign.
template <class D, class V>
HWY_INLINE V divided_int64(D d, V v, std::int64_t divisor) {
  const hn::RebindToFloat<D> wide;
  const V zero = hn::Zero(d);
  const V one = hn::Set(d, 1);
  const V by = hn::Set(d, divisor);
  const auto by_wide = hn::Set(wide, static_cast<double>(divisor));
  V q = hn::ConvertTo(d, hn::Div(hn::ConvertTo(wide, v), by_wide));
  V rest = hn::Sub(v, hn::Mul(q, by));
  q = hn::Add(q, hn::ConvertTo(d, hn::Div(hn::ConvertTo(wide, rest), by_wide)));
  rest = hn::Sub(v, hn::Mul(q, by));
  q = hn::Sub(q, hn::IfThenElseZero(hn::And(hn::Lt(rest, zero), hn::Gt(v, zero)), one));
  return hn::Add(q, hn::IfThenElseZero(hn::And(hn::Gt(rest, zero), hn::Lt(v, zero)), one));
}

// Halves v, so that it has a sign to spare, divides, and doubles: what is left of v is then below 2 *
// divisor.
template <class D, class V>
HWY_INLINE V divided_uint64(D d, V v, std::uint64_t divisor) {
  const hn::RebindToSigned<D> di;
  const auto by = hn::Set(di, static_cast<std::int64_t>(divisor));
  const auto half = hn::BitCast(di, hn::ShiftRight<1>(v));
  const auto q = divided_int64(di, half, static_cast<std::int64_t>(divisor));
  const auto rest = hn::Sub(hn::BitCast(di, v), hn::Mul(hn::Add(q, q), by));
  const auto one_more = hn::IfThenZeroElse(hn::Lt(rest, by), hn::Set(di, 1));
  return hn::BitCast(d, hn::Add(hn::Add(q, q), one_more));
}

template <class D, class V>
HWY_INLINE V divided(D d, V v, hn::TFromD<D> divisor) {
  using T = hn::TFromD<D>;
  if constexpr (std::is_floating_point_v<T>) {
    return hn::Div(v, hn::Set(d, divisor));
  } else if constexpr (sizeof(T) == 8 && std::is_signed_v<T>) {
    return divided_int64(d, v, divisor);
  } else if constexpr (sizeof(T) == 8) {
    return divided_uint64(d, v, divisor);
  } else {
    // No CPU here divides integer vectors. A quotient of 32-bit integers is exact in double after truncation.
    HWY_ALIGN T lanes[hn::MaxLanes(D())];
    hn::Store(v, d, lanes);
    for (std::size_t i = 0; i < hn::MaxLanes(D()); ++i) {
      lanes[i] = static_cast<T>(static_cast<double>(lanes[i]) / static_cast<double>(divisor));
    }
    return hn::Load(d, lanes);
  }
}

struct Sum {
  static constexpr bool kHasOneNaN = true;  // every NaN of the result becomes the canonical one

  template <class D, class V>
  static HWY_INLINE V combine(D, V acc, V next) {
    return hn::Add(acc, next);
  }
  template <class D, class V>
  static HWY_INLINE V finish(D, V acc, hn::TFromD<D>) {
    return acc;
  }
};

struct Avg : Sum {
  template <class D, class V>
  static HWY_INLINE V finish(D d, V acc, hn::TFromD<D> divisor) {
    return divided(d, acc, divisor);
  }
};

struct Prod {
  static constexpr bool kHasOneNaN = true;

  template <class D, class V>
  static HWY_INLINE V combine(D, V acc, V next) {
    return hn::Mul(acc, next);
  }
  template <class D, class V>
  static HWY_INLINE V finish(D, V acc, hn::TFromD<D>) {
    return acc;
  }
};

// Compares and selects instead of the CPU's min/max, whose NaN and signed-zero rules differ between vendors.
// A NaN already held stays; a NaN that comes is taken, because no comparison with it holds. Equal floats
// differ at most in the sign of zero: or-ing the bits gives -0 (min), and-ing them +0 (max).
struct Min {
  static constexpr bool kHasOneNaN = false;

  template <class D, class V>
  static HWY_INLINE V combine(D, V acc, V next) {
    if constexpr (std::is_floating_point_v<hn::TFromD<D>>) {
      const V chosen = hn::IfThenElse(hn::Or(hn::Lt(acc, next), hn::IsNaN(acc)), acc, next);
      return hn::IfThenElse(hn::Eq(acc, next), hn::Or(acc, next), chosen);
    } else {
      return hn::Min(acc, next);
    }
  }
  template <class D, class V>
  static HWY_INLINE V finish(D, V acc, hn::TFromD<D>) {
    return acc;
  }
};

struct Max {
  static constexpr bool kHasOneNaN = false;

  template <class D, class V>
  static HWY_INLINE V combine(D, V acc, V next) {
    if constexpr (std::is_floating_point_v<hn::TFromD<D>>) {
      const V chosen = hn::IfThenElse(hn::Or(hn::Gt(acc, next), hn::IsNaN(acc)), acc, next);
      return hn::IfThenElse(hn::Eq(acc, next), hn::And(acc, next), chosen);
    } else {
      return hn::Max(acc, next);
    }
  }
  template <class D, class V>
  static HWY_INLINE V finish(D, V acc, hn::TFromD<D>) {
    return acc;
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace slipring::collectives
HWY_AFTER_NAMESPACE();

#endif  // SLIPRING_REDUCE_OPS_TOGGLE
