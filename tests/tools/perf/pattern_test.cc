#include "tools/perf/pattern.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "collectives/reduce_kernels.h"

namespace slipring::tools::perf {
namespace {

constexpr std::size_t kCount = 3 * Pattern::kPeriod + 17;

struct Case {
  DType dtype;
  ReduceOp op;
  int ranks;
};

class Reduction : public testing::TestWithParam<Case> {
 protected:
  std::size_t width() const { return dtype_bytes(GetParam().dtype); }

  /// What the engine's own kernels make of all ranks' data.
  std::vector<std::byte> reduced(const Pattern& pattern) const {
    const auto [dtype, op, ranks] = GetParam();
    std::vector<std::vector<std::byte>> data(static_cast<std::size_t>(ranks),
                                             std::vector<std::byte>(kCount * width()));
    std::vector<const void*> sources;
    for (int rank = 0; rank < ranks; ++rank) {
      auto& mine = data[static_cast<std::size_t>(rank)];
      pattern.fill(mine.data(), kCount, rank);
      sources.push_back(mine.data());
    }
    std::vector<std::byte> out(kCount * width());
    collectives::reduce_kernel(dtype, op)(out.data(), nullptr, sources.data(), ranks, kCount, ranks);
    return out;
  }
};

TEST_P(Reduction, OfTheKernelsPassesAndEveryDamageIsCounted) {
  const auto [dtype, op, ranks] = GetParam();
  const Pattern pattern(dtype, op, ranks, 42);
  std::vector<std::byte> result = reduced(pattern);
  EXPECT_EQ(pattern.wrong_reduction(result.data(), kCount), 0U);

  for (const std::size_t at : {std::size_t{0}, Pattern::kPeriod - 1, Pattern::kPeriod, kCount - 1}) {
    result[at * width()] ^= std::byte{1};
  }
  EXPECT_EQ(pattern.wrong_reduction(result.data(), kCount), 4U);
}

TEST_P(Reduction, OfAnotherSeedOrLackingARankDoesNotPass) {
  const auto [dtype, op, ranks] = GetParam();
  const Pattern pattern(dtype, op, ranks, 1);
  const std::vector<std::byte> result = reduced(pattern);
  EXPECT_GT(Pattern(dtype, op, ranks, 2).wrong_reduction(result.data(), kCount), kCount / 8);
  std::vector<std::byte> one(kCount * width());
  pattern.fill(one.data(), kCount, 0);
  EXPECT_GT(pattern.wrong_reduction(one.data(), kCount), kCount / 8);
}

std::vector<Case> every_case() {
  std::vector<Case> cases;
  for (int t = 0; t < kDTypeCount; ++t) {
    const auto dtype = static_cast<DType>(t);
    if (!is_reducible(dtype)) continue;
    for (int op = 0; op < kReduceOpCount; ++op)
      for (const int ranks : {2, 3, 5, 16, 64}) cases.push_back({dtype, static_cast<ReduceOp>(op), ranks});
  }
  cases.push_back({DType::bf16, ReduceOp::sum, 300});
  cases.push_back({DType::f16, ReduceOp::avg, 300});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(TypesAndOperators, Reduction, testing::ValuesIn(every_case()));

// As a ring does it, which rounds after every step.
TEST(Sums, OfHalvesAreExactAlsoInSteps) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const int ranks : {2, 7, 64, 300}) {
      const Pattern pattern(dtype, ReduceOp::sum, ranks, 5);
      std::vector<std::uint16_t> sum(kCount), next(kCount);
      pattern.fill(sum.data(), kCount, ranks - 1);
      for (int rank = 0; rank + 1 < ranks; ++rank) {
        pattern.fill(next.data(), kCount, rank);
        const void* sources[] = {sum.data(), next.data()};
        collectives::reduce_kernel(dtype, ReduceOp::sum)(sum.data(), nullptr, sources, 2, kCount, 1);
      }
      EXPECT_EQ(pattern.wrong_reduction(sum.data(), kCount), 0U) << dtype_name(dtype) << " ranks " << ranks;
    }
  }
}

TEST(Data, ShiftedByAnyChunkIsWrong) {
  const Pattern pattern(DType::f32, ReduceOp::sum, 2, 1);
  std::vector<float> data(300'000);
  pattern.fill(data.data(), data.size(), 1);
  EXPECT_EQ(pattern.wrong_data(data.data(), data.size(), 1), 0U);
  EXPECT_GT(pattern.wrong_data(data.data(), data.size(), 0), data.size() / 2);
  for (std::size_t chunk = 16; chunk <= 1U << 17; chunk *= 2) {
    EXPECT_GT(pattern.wrong_data(data.data() + chunk, 100'000, 1), 50'000U) << chunk;
  }
}

TEST(Data, CanBeFilledAndCheckedInPieces) {
  const Pattern pattern(DType::i64, ReduceOp::sum, 2, 9);
  std::vector<std::int64_t> data(20'000);
  constexpr std::size_t kCut = 7'001;
  pattern.fill(data.data(), kCut, 0);
  pattern.fill(data.data() + kCut, data.size() - kCut, 0, kCut);
  EXPECT_EQ(pattern.wrong_data(data.data(), data.size(), 0), 0U);
  EXPECT_EQ(pattern.wrong_data(data.data() + 11, data.size() - 11, 0, 11), 0U);
}

TEST(Data, OfEveryTypeDiffersFromItsNeighboursAndBoolIsZeroOrOne) {
  for (int t = 0; t < kDTypeCount; ++t) {
    const auto dtype = static_cast<DType>(t);
    const Pattern pattern(dtype, ReduceOp::sum, 2, 3);
    std::vector<std::byte> data(kCount * dtype_bytes(dtype));
    pattern.fill(data.data(), kCount, 1);
    EXPECT_EQ(pattern.wrong_data(data.data(), kCount, 1), 0U) << dtype_name(dtype);
    EXPECT_GT(pattern.wrong_data(data.data() + dtype_bytes(dtype), kCount - 1, 1), kCount / 3);
    if (dtype == DType::boolean) {
      for (const std::byte b : data) ASSERT_LE(std::to_integer<int>(b), 1);
    }
  }
}

TEST(Data, GarbageIsWrongEverywhere) {
  for (int t = 0; t < kDTypeCount; ++t) {
    const auto dtype = static_cast<DType>(t);
    std::vector<std::byte> data(kCount * 8);
    fill_garbage(data.data(), data.size());
    EXPECT_EQ(Pattern(dtype, ReduceOp::sum, 2, 3).wrong_data(data.data(), kCount, 0), kCount);
  }
}

TEST(FixedPoint, IsWhatEveryOperatorLeavesAlone) {
  for (int op = 0; op < kReduceOpCount; ++op) {
    const auto redop = static_cast<ReduceOp>(op);
    std::vector<std::int32_t> a(5), out(5);
    fill_constant(a.data(), a.size(), DType::i32, fixed_point(redop));
    const void* sources[] = {a.data(), a.data(), a.data()};
    collectives::reduce_kernel(DType::i32, redop)(out.data(), nullptr, sources, 3, out.size(), 3);
    EXPECT_EQ(wrong_constant(out.data(), out.size(), DType::i32, fixed_point(redop)), 0U)
        << reduce_op_name(redop);
    out[3] += 1;
    EXPECT_EQ(wrong_constant(out.data(), out.size(), DType::i32, fixed_point(redop)), 1U);
  }
}

}  // namespace
}  // namespace slipring::tools::perf
