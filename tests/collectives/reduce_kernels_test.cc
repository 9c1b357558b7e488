#include "collectives/reduce_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/base/guarded_buffer.h"
#include "tests/collectives/reduce_reference.h"
#include "tests/collectives/simd_targets.h"

namespace slipring::collectives {
namespace {

using base::GuardedBuffer;

constexpr std::array kOps = {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg};
constexpr std::byte kGuard{0xA5};
constexpr std::size_t kGuardBytes = 128;
constexpr std::size_t kMaxOffset = 16;

/// `count` elements at a chosen distance from a 64-byte boundary, with guard bytes on both sides.
class Placed {
 public:
  Placed(std::size_t bytes, std::size_t offset)
      : bytes_(bytes), memory_(bytes + 2 * kGuardBytes + kMaxOffset + 64, kGuard) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    data_ = memory_.data() + (64 - address % 64) % 64 + kGuardBytes + offset;
  }
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  void fill(const void* from, std::size_t bytes) {
    if (bytes != 0) std::memcpy(data_, from, bytes);
  }
  void reset() { std::memset(data_ - kGuardBytes, static_cast<int>(kGuard), bytes_ + 2 * kGuardBytes); }
  bool holds(const void* expected, std::size_t bytes) const {
    return bytes == 0 || std::memcmp(data_, expected, bytes) == 0;
  }
  /// Nothing but the first `written` bytes differs from the guard pattern.
  bool untouched_beyond(std::size_t written) const {
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    return std::all_of(data_ - kGuardBytes, data_, is_guard) &&
           std::all_of(data_ + written, data_ + bytes_ + kGuardBytes, is_guard);
  }

 private:
  std::size_t bytes_;
  std::vector<std::byte> memory_;
  std::byte* data_;
};

template <class T>
struct PlacedSources {
  PlacedSources(const std::vector<std::vector<T>>& values, std::size_t offset) {
    std::size_t k = 0;
    for (const std::vector<T>& v : values) {
      placed.push_back(std::make_unique<Placed>(v.size() * sizeof(T), (offset + 5 * k++) % kMaxOffset));
      placed.back()->fill(v.data(), v.size() * sizeof(T));
      pointers.push_back(placed.back()->data());
    }
  }
  std::vector<std::unique_ptr<Placed>> placed;
  std::vector<const void*> pointers;
};

template <class T>
class ReduceKernels : public testing::Test {};
using ElementTypes = testing::Types<float, double, std::int32_t, std::int64_t, std::int8_t, std::uint8_t,
                                    std::uint32_t, std::uint64_t, float16, bfloat16>;
TYPED_TEST_SUITE(ReduceKernels, ElementTypes);

TYPED_TEST(ReduceKernels, EveryCountOffsetAndNumberOfSourcesIsExactAndStaysInside) {
  using T = TypeParam;
  constexpr std::size_t kCounts = 257;
  for (int n = 1; n <= 16; ++n) {
    const auto values = mixed_sources<T>(n, kCounts, 1);
    for (const ReduceOp op : kOps) {
      const std::vector<T> expected = reference(op, values, n);
      for_each_target([&] {
        const ReduceFn kernel = reduce_kernel(dtype_of<T>::value, op);
        for (std::size_t offset = 0; offset < kMaxOffset; ++offset) {
          PlacedSources<T> sources(values, offset);
          Placed dst(kCounts * sizeof(T), (3 * offset) % kMaxOffset);
          for (std::size_t count = 0; count <= kCounts; ++count) {
            dst.reset();
            kernel(dst.data(), nullptr, sources.pointers.data(), n, count, n);
            ASSERT_TRUE(dst.holds(expected.data(), count * sizeof(T)))
                << reduce_op_name(op) << " n " << n << " count " << count << " offset " << offset;
            ASSERT_TRUE(dst.untouched_beyond(count * sizeof(T))) << "count " << count << " offset " << offset;
          }
        }
      });
    }
  }
}

TYPED_TEST(ReduceKernels, StoresNothingAndReadsNothingAcrossAPageThatFaults) {
  using T = TypeParam;
  constexpr std::size_t kCounts = 257;
  for (int n = 1; n <= 3; ++n) {
    const auto values = mixed_sources<T>(n, kCounts, 2);
    std::vector<std::unique_ptr<GuardedBuffer>> memory;
    for (int k = 0; k <= n; ++k) memory.push_back(std::make_unique<GuardedBuffer>(kCounts * sizeof(T)));
    for (const ReduceOp op : kOps) {
      const std::vector<T> expected = reference(op, values, n);
      for_each_target([&] {
        const ReduceFn kernel = reduce_kernel(dtype_of<T>::value, op);
        for (std::size_t count = 0; count <= kCounts; ++count) {
          for (const bool at_end : {false, true}) {
            const auto place = [&](int k) {
              GuardedBuffer& buffer = *memory[static_cast<std::size_t>(k)];
              return at_end ? buffer.end() - count * sizeof(T) : buffer.begin();
            };
            std::vector<const void*> sources;
            for (int k = 0; k < n; ++k) {
              std::memcpy(place(k), values[static_cast<std::size_t>(k)].data(), count * sizeof(T));
              sources.push_back(place(k));
            }
            kernel(place(n), nullptr, sources.data(), n, count, n);
            ASSERT_EQ(std::memcmp(place(n), expected.data(), count * sizeof(T)), 0) << "count " << count;
          }
        }
      });
    }
  }
}

TYPED_TEST(ReduceKernels, BothOutputsMayBeSourcesThemselves) {
  using T = TypeParam;
  constexpr std::size_t kCount = 2053;
  for (int n = 1; n <= 4; ++n) {
    const auto values = mixed_sources<T>(n, kCount, 3);
    for (const ReduceOp op : kOps) {
      const std::vector<T> expected = reference(op, values, n);
      for_each_target([&] {
        const ReduceFn kernel = reduce_kernel(dtype_of<T>::value, op);
        for (int dst = 0; dst < n; ++dst) {
          for (int dst2 = -1; dst2 < n; ++dst2) {
            if (dst2 == dst) continue;
            PlacedSources<T> sources(values, 8);
            Placed& first = *sources.placed[static_cast<std::size_t>(dst)];
            Placed* second = dst2 < 0 ? nullptr : sources.placed[static_cast<std::size_t>(dst2)].get();
            kernel(first.data(), second == nullptr ? nullptr : second->data(), sources.pointers.data(), n,
                   kCount, n);
            ASSERT_TRUE(first.holds(expected.data(), kCount * sizeof(T)));
            ASSERT_TRUE(second == nullptr || second->holds(expected.data(), kCount * sizeof(T)));
            for (int k = 0; k < n; ++k) {
              if (k == dst || k == dst2) continue;
              const auto& kept = values[static_cast<std::size_t>(k)];
              ASSERT_TRUE(
                  sources.placed[static_cast<std::size_t>(k)]->holds(kept.data(), kCount * sizeof(T)));
            }
          }
        }
      });
    }
  }
}

TYPED_TEST(ReduceKernels, TwoOutputsGetTheSameBytesAtEveryAlignment) {
  using T = TypeParam;
  constexpr std::size_t kCount =
      2 * 65536 / sizeof(T) + 13;  // longer than the pieces in which dst2 is copied
  const auto values = mixed_sources<T>(3, kCount, 4);
  for (const int n : {2, 3}) {
    const std::vector<std::vector<T>> used(values.begin(), values.begin() + n);
    const std::vector<T> expected = reference(ReduceOp::sum, used, 1);
    for_each_target([&] {
      const ReduceFn kernel = reduce_kernel(dtype_of<T>::value, ReduceOp::sum);
      for (std::size_t offset = 0; offset < kMaxOffset; ++offset) {
        PlacedSources<T> sources(used, offset);
        Placed dst(kCount * sizeof(T), offset);
        Placed dst2(kCount * sizeof(T), (7 * offset) % kMaxOffset);
        for (const std::size_t count : {kCount, 65536 / sizeof(T), 4096 / sizeof(T), 4096 / sizeof(T) - 1,
                                        1024 / sizeof(T), 1024 / sizeof(T) - 1, std::size_t{3}}) {
          dst.reset();
          dst2.reset();
          kernel(dst.data(), dst2.data(), sources.pointers.data(), n, count, 1);
          for (const Placed* out : {&dst, &dst2}) {
            ASSERT_TRUE(out->holds(expected.data(), count * sizeof(T)))
                << "count " << count << " offset " << offset;
            ASSERT_TRUE(out->untouched_beyond(count * sizeof(T)))
                << "count " << count << " offset " << offset;
          }
        }
      }
    });
  }
}

TYPED_TEST(ReduceKernels, ResultDoesNotDependOnHowTheRangeIsSplit) {
  using T = TypeParam;
  constexpr std::size_t kCount = 5000;
  for (const int n : {2, 5}) {
    const auto values = mixed_sources<T>(n, kCount, 5);
    for (const ReduceOp op : kOps) {
      const std::vector<T> expected = reference(op, values, 3);
      for_each_target([&] {
        const ReduceFn kernel = reduce_kernel(dtype_of<T>::value, op);
        std::mt19937_64 random(7);
        for (int round = 0; round < 20; ++round) {
          std::vector<T> out(kCount);
          for (std::size_t at = 0; at < kCount;) {
            const std::size_t piece =
                std::min<std::size_t>(1 + random() % (round < 10 ? 40 : 1500), kCount - at);
            std::vector<const void*> sources;
            for (const auto& v : values) sources.push_back(v.data() + at);
            kernel(out.data() + at, nullptr, sources.data(), n, piece, 3);
            at += piece;
          }
          ASSERT_EQ(std::memcmp(out.data(), expected.data(), kCount * sizeof(T)), 0) << reduce_op_name(op);
        }
      });
    }
  }
}

TYPED_TEST(ReduceKernels, AverageDividesOnceAndOtherOperatorsIgnoreTheDivisor) {
  using T = TypeParam;
  constexpr std::size_t kCount = 300;
  const auto values = mixed_sources<T>(2, kCount, 6);
  const std::array<const void*, 2> sources = {values[0].data(), values[1].data()};
  for (const ReduceOp op : kOps) {
    for (const int divisor : {1, 2, 3, 7, 16, 64, 1000003, std::numeric_limits<int>::max()}) {
      const std::vector<T> expected = reference(op, values, divisor);
      for_each_target([&] {
        std::vector<T> out(kCount);
        reduce_kernel(dtype_of<T>::value, op)(out.data(), nullptr, sources.data(), 2, kCount, divisor);
        ASSERT_EQ(std::memcmp(out.data(), expected.data(), kCount * sizeof(T)), 0)
            << reduce_op_name(op) << " divisor " << divisor;
      });
    }
  }
}

template <class T>
std::vector<T> run(ReduceOp op, std::vector<T> a, std::vector<T> b, int divisor = 1) {
  std::vector<T> out(a.size());
  const std::array<const void*, 2> sources = {a.data(), b.data()};
  reduce_kernel(dtype_of<T>::value, op)(out.data(), nullptr, sources.data(), 2, out.size(), divisor);
  return out;
}

TEST(ReduceKernelValues, MinimumTakesNegativeZeroAndMaximumPositiveZeroInEitherOrder) {
  for_each_target([] {
    const std::vector<float> zeros(33, 0.0f);
    const std::vector<float> negative(33, -0.0f);
    for (const float v : run(ReduceOp::min, zeros, negative)) EXPECT_TRUE(std::signbit(v));
    for (const float v : run(ReduceOp::min, negative, zeros)) EXPECT_TRUE(std::signbit(v));
    for (const float v : run(ReduceOp::max, zeros, negative)) EXPECT_FALSE(std::signbit(v));
    for (const float v : run(ReduceOp::max, negative, zeros)) EXPECT_FALSE(std::signbit(v));
  });
}

TEST(ReduceKernelValues, MinimumAndMaximumKeepTheFirstNaNBitForBitEvenASignallingOne) {
  for_each_target([] {
    const double signalling = std::bit_cast<double>(std::uint64_t{0x7ff0000000000042});
    const double negative = std::bit_cast<double>(std::uint64_t{0xfff8000000000077});
    const double infinity = std::numeric_limits<double>::infinity();
    for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
      const auto out =
          run<double>(op, {signalling, negative, 1.0, -infinity, signalling, 1.0, 1.0, 1.0, negative},
                      {negative, signalling, signalling, negative, infinity, 1.0, 1.0, 1.0, 2.0});
      const std::array<double, 5> first = {signalling, negative, signalling, negative, signalling};
      EXPECT_EQ(std::memcmp(out.data(), first.data(), sizeof(first)), 0);
      EXPECT_EQ(std::memcmp(&out[8], &negative, sizeof(double)), 0);
    }
  });
}

TEST(ReduceKernelValues, EverySumThatIsNotANumberHasTheSameBits) {
  for_each_target([] {
    const float infinity = std::numeric_limits<float>::infinity();
    const float negative = std::bit_cast<float>(0xffc00123u);
    const float payload = std::bit_cast<float>(0x7fc00456u);
    const auto out = run<float>(ReduceOp::sum, {infinity, negative, payload, 1.0f, negative},
                                {-infinity, payload, negative, payload, 1.0f});
    for (const float v : out) EXPECT_EQ(std::bit_cast<std::uint32_t>(v), 0x7fc00000u);
  });
}

TEST(ReduceKernelValues, IntegersWrapAndAveragesTruncateTowardZeroAfterTheSumWrapped) {
  for_each_target([] {
    constexpr auto kMin = std::numeric_limits<std::int32_t>::min();
    constexpr auto kMax = std::numeric_limits<std::int32_t>::max();
    EXPECT_EQ(run<std::int32_t>(ReduceOp::sum, {kMin, kMax}, {-1, 1}),
              (std::vector<std::int32_t>{kMax, kMin}));
    EXPECT_EQ(run<std::int32_t>(ReduceOp::avg, {-3, 3, kMax}, {-4, 4, 1}, 2),
              (std::vector<std::int32_t>{-3, 3, kMin / 2}));
    EXPECT_EQ(
        run<std::int64_t>(ReduceOp::prod, {std::int64_t{1} << 62, 0x123456789abcdef}, {6, 0x7edcba987654321}),
        (std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::min(),
                                   static_cast<std::int64_t>(0x123456789abcdefULL * 0x7edcba987654321ULL)}));
  });
}

template <class T>
void expect_exact_averages_beside_multiples() {
  std::mt19937_64 random(13);
  for (const int divisor : {2, 3, 5, 7, 10, 64, 1000, 65537, 1 << 30, std::numeric_limits<int>::max()}) {
    const auto by = static_cast<T>(divisor);
    std::vector<T> values;
    for (int i = 0; i < 4000; ++i) {
      const T quotient = (static_cast<T>(random()) >> random() % 64) / by;
      for (const int beside : {-1, 0, 1}) values.push_back(quotient * by + static_cast<T>(beside));
    }
    for (int i = 0; i < 40; ++i) {
      values.push_back(std::numeric_limits<T>::min() + static_cast<T>(i));
      values.push_back(std::numeric_limits<T>::max() - static_cast<T>(i));
      values.push_back((T{1} << 53) + static_cast<T>(i - 20));
      values.push_back(std::numeric_limits<T>::max() / 2 + static_cast<T>(i - 20));
    }
    std::vector<T> expected;
    for (const T v : values) expected.push_back(v / by);
    const std::vector<T> zeros(values.size());
    for_each_target(
        [&] { EXPECT_EQ(run<T>(ReduceOp::avg, values, zeros, divisor), expected) << "divisor " << divisor; });
  }
}

TEST(ReduceKernelValues, AveragesOf64BitIntegersAreExactRightBesideMultiplesOfTheDivisor) {
  expect_exact_averages_beside_multiples<std::int64_t>();
  expect_exact_averages_beside_multiples<std::uint64_t>();
}

template <class T>
void expect_every_average_of_bytes() {
  std::vector<T> values;
  for (int v = std::numeric_limits<T>::min(); v <= std::numeric_limits<T>::max(); ++v)
    values.push_back(static_cast<T>(v));
  const std::vector<T> zeros(values.size());
  for (int divisor = 1; divisor <= 600; ++divisor) {
    std::vector<T> expected;
    for (const T v : values) expected.push_back(static_cast<T>(v / divisor));
    for_each_target(
        [&] { ASSERT_EQ(run<T>(ReduceOp::avg, values, zeros, divisor), expected) << "divisor " << divisor; });
  }
}

TEST(ReduceKernelValues, EveryByteIsDividedRightByEveryDivisor) {
  expect_every_average_of_bytes<std::int8_t>();
  expect_every_average_of_bytes<std::uint8_t>();
}

TEST(ReduceKernelValues, TypesThatAreOnlyCarriedHaveNoKernel) {
  for (int t = 0; t < kDTypeCount + 1; ++t) {
    for (const ReduceOp op : kOps) {
      const auto dtype = static_cast<DType>(t);
      EXPECT_EQ(reduce_kernel(dtype, op) != nullptr, is_reducible(dtype)) << dtype_name(dtype);
    }
  }
}

TEST(ReduceKernelTargets, SeveralInstructionSetsAreCompiledAndTheBestIsTheDefault) {
  const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
#if HWY_ARCH_X86
  EXPECT_GE(targets.size(), 2u);
#endif
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  EXPECT_STREQ(reduce_kernel_target(), hwy::TargetName(targets.front()));
}

}  // namespace
}  // namespace slipring::collectives
