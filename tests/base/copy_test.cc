#include "base/copy.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tests/base/guarded_buffer.h"

namespace slipring::base {
namespace {

constexpr unsigned char kGuard = 0x5A;

std::vector<unsigned char> noise(std::size_t bytes) {
  std::mt19937 random(11);
  std::vector<unsigned char> values(bytes);
  for (auto& v : values) v = static_cast<unsigned char>(random());
  return values;
}

void expect_copied(std::size_t bytes, std::size_t to_offset, std::size_t from_offset,
                   const std::vector<unsigned char>& source) {
  constexpr std::size_t kMargin = 192;
  std::vector<unsigned char> dst(bytes + 2 * kMargin, kGuard);
  unsigned char* to = dst.data() + 64 + to_offset;
  copy_handed_over(to, source.data() + from_offset, bytes);
  ASSERT_TRUE(bytes == 0 || std::memcmp(to, source.data() + from_offset, bytes) == 0)
      << "bytes " << bytes << " offsets " << to_offset << " " << from_offset;
  for (const unsigned char* p = dst.data(); p != dst.data() + dst.size(); ++p) {
    if (p >= to && p < to + bytes) continue;
    ASSERT_EQ(*p, kGuard) << "bytes " << bytes << " wrote at " << p - to;
  }
}

TEST(CopyHandedOver, EverySizeAndAlignmentOfAFewLinesIsExactAndStaysInside) {
  const auto source = noise(4096);
  for (std::size_t bytes = 0; bytes <= 400; ++bytes) {
    for (const std::size_t offset : {0, 1, 3, 8, 16, 31, 32, 63}) {
      expect_copied(bytes, offset, 0, source);
      expect_copied(bytes, 0, offset, source);
      expect_copied(bytes, offset, 5, source);
    }
  }
}

TEST(CopyHandedOver, SizesAroundTheThresholdAndLargeOnesAreExact) {
  const auto source = noise(1 << 20);
  for (const std::size_t base : {1024, 2048, 4096, 65536, 1 << 19}) {
    for (const std::size_t bytes : {base - 65, base - 1, base, base + 1, base + 63, base + 129}) {
      expect_copied(bytes, 0, 0, source);
      expect_copied(bytes, 17, 33, source);
    }
  }
}

TEST(CopyHandedOver, NothingIsTouchedAcrossAPageThatFaults) {
  const GuardedBuffer from(8192);
  const GuardedBuffer to(8192);
  const auto source = noise(8192);
  for (std::size_t bytes = 0; bytes <= 8192; bytes += bytes < 300 ? 1 : 61) {
    for (const bool at_end : {false, true}) {
      std::byte* a = at_end ? from.end() - bytes : from.begin();
      std::byte* b = at_end ? to.end() - bytes : to.begin();
      std::memcpy(a, source.data(), bytes);
      copy_handed_over(b, a, bytes);
      ASSERT_EQ(std::memcmp(b, source.data(), bytes), 0) << "bytes " << bytes;
    }
  }
}

TEST(CopyHandedOver, NothingToCopyNeedsNoPointers) {
  copy_handed_over(nullptr, nullptr, 0);
}

TEST(CopyHandedOver, AReaderThatSeesTheReleaseStoreSeesEveryByte) {
  constexpr std::size_t kBytes = 8192 + 24;
  constexpr int kRounds = 20000;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  std::vector<unsigned char> slot(kBytes);
  std::atomic<int> full{0};   // written by the writer, read by the reader: publishes slot
  std::atomic<int> empty{0};  // written by the reader, read by the writer: gives slot back
  const auto reached = [&](const std::atomic<int>& count, int round) {
    while (count.load(std::memory_order_acquire) != round) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  };
  std::thread writer([&] {
    std::vector<unsigned char> source(kBytes);
    for (int round = 1; round <= kRounds && reached(empty, round - 1); ++round) {
      std::memset(source.data(), round & 0xff, kBytes);
      copy_handed_over(slot.data(), source.data(), kBytes);
      full.store(round, std::memory_order_release);
    }
  });
  int stale = 0, round = 1;
  for (; round <= kRounds && reached(full, round); ++round) {
    // Last bytes first: they are the likeliest to be late.
    for (std::size_t i = kBytes; i-- > 0;) stale += slot[i] != (round & 0xff);
    empty.store(round, std::memory_order_release);
  }
  writer.join();
  EXPECT_EQ(stale, 0);
  EXPECT_EQ(round, kRounds + 1) << "deadline passed";
}

}  // namespace
}  // namespace slipring::base
