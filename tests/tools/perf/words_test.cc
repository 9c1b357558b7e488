#include "tools/perf/words.h"

#include <gtest/gtest.h>

#include <vector>

namespace slipring::tools::perf {
namespace {

TEST(Words, AreFilledAndSummedToTheLastForEveryLength) {
  std::vector<Word> words(300, 7);
  for (std::size_t n = 0; n + 1 < words.size(); ++n) {
    const std::span<Word> some(words.data() + 1, n);  // not at the alignment of a vector
    fill_words(std::as_writable_bytes(some), static_cast<Word>(0x80000001U + n));
    EXPECT_EQ(sum_words(std::as_bytes(some)), static_cast<Word>(n * (0x80000001U + n))) << n;
    EXPECT_EQ(words[0], 7U);
    EXPECT_EQ(words[n + 1], 7U) << n;
  }
}

}  // namespace
}  // namespace slipring::tools::perf
