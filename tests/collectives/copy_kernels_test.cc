#include "collectives/copy_kernels.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "guarded_buffer.h"
#include "simd_targets.h"

namespace slipring::collectives {
namespace {

struct NamedCopy {
  std::string_view name;
  void (*copy)(void*, const void*, std::size_t) noexcept;
};
constexpr std::array kCopies = {NamedCopy{"plain", copy_plain}, NamedCopy{"nontemporal", copy_nontemporal},
                                NamedCopy{"prefetched", copy_prefetched}};
constexpr int kGuard = 0x5A;

std::vector<unsigned char> noise(std::size_t bytes) {
  std::mt19937 random(11);
  std::vector<unsigned char> values(bytes);
  for (auto& v : values) v = static_cast<unsigned char>(random());
  return values;
}

void expect_copied(const NamedCopy& kind, std::size_t bytes, std::size_t to_offset, std::size_t from_offset,
                   const std::vector<unsigned char>& source) {
  constexpr std::size_t kMargin = 192;
  std::vector<unsigned char> dst(bytes + 2 * kMargin, kGuard);
  unsigned char* to = dst.data() + 64 + to_offset;
  kind.copy(to, source.data() + from_offset, bytes);
  ASSERT_TRUE(bytes == 0 || std::memcmp(to, source.data() + from_offset, bytes) == 0)
      << kind.name << " bytes " << bytes << " offsets " << to_offset << " " << from_offset;
  for (const unsigned char* p = dst.data(); p != dst.data() + dst.size(); ++p) {
    if (p >= to && p < to + bytes) continue;
    ASSERT_EQ(*p, kGuard) << kind.name << " bytes " << bytes << " wrote at " << p - to;
  }
}

TEST(CopyKernels, EverySizeAndAlignmentOfAFewLinesIsExactAndStaysInside) {
  const auto source = noise(4096);
  for_each_target([&] {
    for (const NamedCopy& kind : kCopies) {
      for (std::size_t bytes = 0; bytes <= 400; ++bytes) {
        for (const std::size_t offset : {0, 1, 3, 8, 16, 31, 32, 63}) {
          expect_copied(kind, bytes, offset, 0, source);
          expect_copied(kind, bytes, 0, offset, source);
          expect_copied(kind, bytes, offset, 5, source);
        }
      }
    }
  });
}

TEST(CopyKernels, SizesAroundTheirInternalBoundariesAreExact) {
  const auto source = noise(1 << 20);
  for_each_target([&] {
    for (const NamedCopy& kind : kCopies) {
      for (const std::size_t base : {1024, 2048, 4096, 65536, 1 << 19}) {
        for (const std::size_t bytes : {base - 65, base - 1, base, base + 1, base + 63, base + 129}) {
          expect_copied(kind, bytes, 0, 0, source);
          expect_copied(kind, bytes, 17, 33, source);
        }
      }
    }
  });
}

TEST(CopyKernels, NothingIsTouchedAcrossAPageThatFaults) {
  const GuardedBuffer from(8192);
  const GuardedBuffer to(8192);
  const auto source = noise(8192);
  for_each_target([&] {
    for (const NamedCopy& kind : kCopies) {
      for (std::size_t bytes = 0; bytes <= 4200; bytes += bytes < 300 ? 1 : 61) {
        for (const bool at_end : {false, true}) {
          std::byte* a = at_end ? from.end() - bytes : from.begin();
          std::byte* b = at_end ? to.end() - bytes : to.begin();
          std::memcpy(a, source.data(), bytes);
          kind.copy(b, a, bytes);
          ASSERT_EQ(std::memcmp(b, source.data(), bytes), 0) << kind.name << " bytes " << bytes;
        }
      }
    }
  });
}

TEST(CopyKernels, NothingToCopyNeedsNoPointers) {
  for (const NamedCopy& kind : kCopies) kind.copy(nullptr, nullptr, 0);
}

}  // namespace
}  // namespace slipring::collectives
