#include "base/counters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "base/deadline.h"

namespace slipring::base {
namespace {

using ::testing::HasSubstr;

/// Exactly `bytes` at a 64-byte boundary, so that AddressSanitizer sees a step beyond.
class AlignedMemory {
 public:
  explicit AlignedMemory(std::size_t bytes)
      : bytes_(bytes), data_(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{64}))) {
    std::memset(data_, 0xAB, bytes);
  }
  ~AlignedMemory() { ::operator delete (data_, std::align_val_t{64}); }
  AlignedMemory(const AlignedMemory&) = delete;
  AlignedMemory& operator=(const AlignedMemory&) = delete;
  std::span<std::byte> span() { return {data_, bytes_}; }
  CountersHeader& header() { return *reinterpret_cast<CountersHeader*>(data_); }

 private:
  std::size_t bytes_;
  std::byte* data_;
};

TEST(CountersTest, EachRankHasItsOwnLines) {
  AlignedMemory memory(counters_bytes(3));
  ASSERT_TRUE(format_counters(memory.span(), 3));
  CounterBlock* blocks[3];
  for (int rank = 0; rank < 3; ++rank) {
    auto block = counter_block(memory.span(), rank);
    ASSERT_TRUE(block) << block.status().to_string();
    blocks[rank] = block.value();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks[rank]) % 64, 0U);
  }
  EXPECT_EQ(blocks[1] - blocks[0], 1);
  blocks[1]->operations.add(2);
  blocks[1]->operations.add(3);
  blocks[2]->strangers.set(7);
  const auto view = CountersView::open(memory.span());
  ASSERT_TRUE(view) << view.status().to_string();
  ASSERT_EQ(view.value().ranks(), 3);
  for (int rank = 0; rank < 3; ++rank) {
    for (std::size_t i = 0; i < view.value().counters(); ++i) {
      const auto name = view.value().name(i);
      const std::uint64_t expected = rank == 1 && name == "operations"  ? 5
                                     : rank == 2 && name == "strangers" ? 7
                                                                        : 0;
      EXPECT_EQ(view.value().value(rank, i), expected) << rank << " " << name;
    }
  }
}

TEST(CountersTest, CellsAreInTheOrderOfTheirNames) {
  AlignedMemory memory(counters_bytes(1));
  ASSERT_TRUE(format_counters(memory.span(), 1));
  CounterBlock* block = counter_block(memory.span(), 0).value();
  std::uint64_t next = 1;
#define SLIPRING_COUNTER(name, meaning) block->name.set(next++);
#include "base/counters_list.def"
  const auto view = CountersView::open(memory.span()).value();
  ASSERT_EQ(view.counters(), kCounterCount);
  std::size_t index = 0;
#define SLIPRING_COUNTER(counter, meaning_text)             \
  EXPECT_EQ(view.name(index), #counter);                    \
  EXPECT_EQ(view.index_of(#counter), index);                \
  EXPECT_EQ(CountersView::meaning(#counter), meaning_text); \
  EXPECT_EQ(view.value(0, index), index + 1);               \
  ++index;
#include "base/counters_list.def"
  EXPECT_EQ(view.index_of("no_such_counter"), std::nullopt);
  EXPECT_EQ(CountersView::meaning("no_such_counter"), "");
}

TEST(CountersTest, BlockWithoutASegmentCountsToo) {
  const auto block = std::make_unique<CounterBlock>();
  block->sleeps.add(4);
  EXPECT_EQ(block->sleeps.value(), 4U);
}

TEST(CountersTest, ReadOnlyMappingInAnotherProcessFollowsTheWriter) {
  const std::size_t bytes = counters_bytes(2);
  const int fd = ::memfd_create("counters", MFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::ftruncate(fd, static_cast<off_t>(bytes)), 0);
  auto* writable = static_cast<std::byte*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  ASSERT_NE(writable, MAP_FAILED);
  ASSERT_TRUE(format_counters({writable, bytes}, 2));

  constexpr std::uint64_t kLast = 100'000;
  const pid_t reader = ::fork();
  if (reader == 0) {
    // The one mapping left is read-only: a store by the reader would end it with SIGSEGV.
    ::munmap(writable, bytes);
    const auto* memory = static_cast<const std::byte*>(::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0));
    const auto view = CountersView::open({memory, bytes});
    if (!view) ::_exit(2);
    const std::size_t index = *view.value().index_of("channel_bytes");
    const Deadline deadline = Deadline::after_ms(20'000);
    for (std::uint64_t before = 0; before != kLast;) {
      const std::uint64_t now = view.value().value(1, index);
      if (now < before) ::_exit(3);
      if (deadline.passed()) ::_exit(4);
      before = now;
    }
    ::_exit(0);
  }
  CounterBlock* block = counter_block({writable, bytes}, 1).value();
  for (std::uint64_t i = 0; i < kLast; ++i) block->channel_bytes.add(1);
  int state = 0;
  ASSERT_EQ(::waitpid(reader, &state, 0), reader);
  EXPECT_TRUE(WIFEXITED(state)) << state;
  EXPECT_EQ(WEXITSTATUS(state), 0);
  ::munmap(writable, bytes);
  ::close(fd);
}

TEST(CountersTest, ReaderOnAnotherThreadSeesValuesGrow) {
  AlignedMemory memory(counters_bytes(1));
  ASSERT_TRUE(format_counters(memory.span(), 1));
  constexpr std::uint64_t kLast = 50'000;
  std::thread writer([&] {
    CounterBlock* block = counter_block(memory.span(), 0).value();
    for (std::uint64_t i = 0; i < kLast; ++i) block->operations.add(1);
  });
  const auto view = CountersView::open(memory.span()).value();
  const Deadline deadline = Deadline::after_ms(20'000);
  for (std::uint64_t before = 0; before != kLast;) {
    const std::uint64_t now = view.value(0, 0);
    ASSERT_GE(now, before);
    ASSERT_FALSE(deadline.passed());
    before = now;
  }
  writer.join();
}

TEST(CountersTest, MemoryThatDoesNotSuitIsRefused) {
  AlignedMemory memory(counters_bytes(2));
  EXPECT_EQ(format_counters(memory.span(), 3).code(), StatusCode::invalid_argument);
  EXPECT_EQ(format_counters(memory.span(), 0).code(), StatusCode::invalid_argument);
  EXPECT_EQ(format_counters(memory.span().subspan(8), 1).code(), StatusCode::invalid_argument);
  EXPECT_THAT(format_counters(memory.span(), 3).message(), HasSubstr(std::to_string(counters_bytes(3))));
  EXPECT_EQ(CountersView::open(memory.span()).status().code(), StatusCode::corrupt);
  EXPECT_EQ(counter_block(memory.span(), 0).status().code(), StatusCode::corrupt);
  ASSERT_TRUE(format_counters(memory.span(), 2));
  EXPECT_EQ(counter_block(memory.span(), 2).status().code(), StatusCode::invalid_argument);
  EXPECT_EQ(counter_block(memory.span(), -1).status().code(), StatusCode::invalid_argument);
  EXPECT_EQ(CountersView::open(memory.span().first(63)).status().code(), StatusCode::corrupt);
}

/// Reads everything that the view offers.
std::uint64_t read_all(const CountersView& view) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < view.counters(); ++i) {
    sum += view.name(i).size();
    for (int rank = 0; rank < view.ranks(); ++rank) sum += view.value(rank, i);
  }
  return sum;
}

TEST(CountersTest, HeaderThatLiesNeverLeadsOutOfTheMemory) {
  AlignedMemory memory(counters_bytes(2));
  const std::uint64_t lies[] = {0,       1,          2,          3,     63,         64,        128,
                                1 << 20, 0x7fffffff, 0xffffffff, ~0ULL, ~0ULL - 63, 1ULL << 63};
  int refused = 0;
  const auto try_header = [&] {
    const auto view = CountersView::open(memory.span());
    if (view) {
      read_all(view.value());
    } else {
      ++refused;
    }
  };
  for (const std::uint64_t lie : lies) {
    for (int field = 0; field < 7; ++field) {
      ASSERT_TRUE(format_counters(memory.span(), 2));
      CountersHeader& header = memory.header();
      const auto small = static_cast<std::uint32_t>(lie);
      switch (field) {
        case 0:
          header.version = small;
          break;
        case 1:
          header.ranks = small;
          break;
        case 2:
          header.counters = small;
          break;
        case 3:
          header.name_bytes = small;
          break;
        case 4:
          header.names_offset = lie;
          break;
        case 5:
          header.blocks_offset = lie;
          break;
        case 6:
          header.block_stride_bytes = lie;
          break;
      }
      try_header();
    }
  }
  EXPECT_GT(refused, 60);
  for (std::size_t bytes = 0; bytes < counters_bytes(2); bytes += 8) {
    ASSERT_TRUE(format_counters(memory.span(), 2));
    EXPECT_FALSE(CountersView::open(memory.span().first(bytes)));
  }
}

TEST(CountersTest, AnotherBuildsCountersCanBeReadButNotWritten) {
  AlignedMemory memory(counters_bytes(1));
  ASSERT_TRUE(format_counters(memory.span(), 1));
  counter_block(memory.span(), 0).value()->operations.set(9);
  std::memcpy(memory.span().data() + memory.header().names_offset, "renamed_ops\0", 12);
  const auto view = CountersView::open(memory.span());
  ASSERT_TRUE(view) << view.status().to_string();
  EXPECT_EQ(view.value().value(0, *view.value().index_of("renamed_ops")), 9U);
  EXPECT_EQ(counter_block(memory.span(), 0).status().code(), StatusCode::mismatch);

  memory.header().version = 2;
  EXPECT_EQ(CountersView::open(memory.span()).status().code(), StatusCode::unsupported);
}

}  // namespace
}  // namespace slipring::base
