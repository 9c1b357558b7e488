// The heap: sizes, growth, exhaustion, wrong pointers, and reach from a peer process.
#include "base/heap.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tests/base/role_process.h"

namespace slipring::base {
namespace {

using tests::hear;
using tests::Role;
using tests::RoleArguments;
using tests::RoleProcess;
using tests::say;

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::shared_ptr<Heap> make_heap(std::size_t max_bytes) {
  auto heap = Heap::create({.max_bytes = max_bytes});
  EXPECT_TRUE(heap) << heap.status().to_string();
  return heap ? *heap : nullptr;
}

std::byte* must_allocate(Heap& heap, std::size_t bytes) {
  auto pointer = heap.allocate(bytes);
  EXPECT_TRUE(pointer) << pointer.status().to_string();
  return pointer ? *pointer : nullptr;
}

TEST(Heap, EveryOddSizeIsAlignedSeparateAndReusable) {
  auto heap = make_heap(64 * kMiB);
  ASSERT_NE(heap, nullptr);
  std::vector<std::pair<std::byte*, std::size_t>> buffers;
  std::vector<std::size_t> sizes{4095, 4096, 4097, 65'535, 65'537, kMiB - 1, kMiB, kMiB + 1, 3 * kMiB + 7};
  for (std::size_t bytes = 0; bytes <= 257; ++bytes) sizes.push_back(bytes);
  for (const std::size_t bytes : sizes) {
    std::byte* const pointer = must_allocate(*heap, bytes);
    ASSERT_NE(pointer, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pointer) % (bytes >= kMiB ? 4096 : 64), 0U) << bytes;
    EXPECT_TRUE(heap->contains(pointer, bytes));
    std::memset(pointer, static_cast<int>(buffers.size() % 251), bytes);
    buffers.emplace_back(pointer, bytes);
  }
  EXPECT_EQ(heap->live_buffers(), sizes.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    for (std::size_t at = 0; at < buffers[i].second; ++at) {
      ASSERT_EQ(buffers[i].first[at], std::byte(i % 251)) << "buffer of " << buffers[i].second;
    }
    EXPECT_TRUE(heap->free(buffers[i].first));
  }
  EXPECT_EQ(heap->live_buffers(), 0U);
  // All of it is one piece again.
  EXPECT_TRUE(heap->allocate(heap->committed_bytes() - 2 * 4096));
}

TEST(Heap, GrowsInStepsOnlyAsNeeded) {
  auto heap = make_heap(std::size_t{16} << 30);
  ASSERT_NE(heap, nullptr);
  EXPECT_EQ(heap->committed_bytes(), 2 * kMiB);
  std::size_t steps = 0;
  std::size_t committed = heap->committed_bytes();
  for (int i = 0; i < 256; ++i) {
    std::byte* const pointer = must_allocate(*heap, 256 * 1024);
    ASSERT_NE(pointer, nullptr);
    std::memset(pointer, i, 256 * 1024);
    if (heap->committed_bytes() != committed) ++steps;
    committed = heap->committed_bytes();
  }
  EXPECT_GE(committed, 64 * kMiB);
  EXPECT_LT(committed, 128 * kMiB);
  EXPECT_LT(steps, 20U);
}

TEST(Heap, ExhaustionIsAnErrorThatNamesTheKeyAndChangesNothing) {
  auto heap = make_heap(5 * kMiB);
  ASSERT_NE(heap, nullptr);
  for (const std::size_t bytes : {6 * kMiB, 5 * kMiB, SIZE_MAX, SIZE_MAX - 63}) {
    const auto too_large = heap->allocate(bytes);
    ASSERT_EQ(too_large.status().code(), StatusCode::out_of_memory) << bytes;
    for (const char* word : {"wanted", "free", "heap.max_bytes"}) {
      EXPECT_NE(too_large.status().message().find(word), std::string::npos) << too_large.status().message();
    }
  }
  std::vector<std::byte*> buffers;
  for (;;) {
    auto pointer = heap->allocate(10'000);
    if (!pointer) break;
    buffers.push_back(*pointer);
    std::memset(*pointer, 1, 10'000);
  }
  EXPECT_GT(buffers.size(), 500U);
  EXPECT_EQ(heap->committed_bytes(), 5 * kMiB);
  for (std::byte* const pointer : buffers) ASSERT_TRUE(heap->free(pointer));
  EXPECT_TRUE(heap->allocate(4 * kMiB));
}

TEST(Heap, RandomUseKeepsEveryBufferIntact) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  auto heap = make_heap(32 * kMiB);
  ASSERT_NE(heap, nullptr);
  struct Buffer {
    std::byte* pointer;
    std::size_t bytes;
    std::byte fill;
  };
  std::vector<Buffer> live;
  for (int step = 0; step < 4000; ++step) {
    if (live.empty() || random() % 5 < 3) {
      const std::size_t bytes = random() % 20 == 0 ? random() % (2 * kMiB) : random() % 8192;
      auto pointer = heap->allocate(bytes);
      if (!pointer) continue;
      const auto fill = std::byte(random() % 256);
      std::memset(*pointer, static_cast<int>(fill), bytes);
      live.push_back({*pointer, bytes, fill});
    } else {
      const std::size_t which = random() % live.size();
      const Buffer gone = live[which];
      live[which] = live.back();
      live.pop_back();
      for (std::size_t at = 0; at < gone.bytes; at += 61) ASSERT_EQ(gone.pointer[at], gone.fill);
      ASSERT_TRUE(heap->free(gone.pointer));
    }
  }
  EXPECT_EQ(heap->live_buffers(), live.size());
}

TEST(Heap, ForeignMiddleAndDoubleFreesAreRefused) {
  auto heap = make_heap(4 * kMiB);
  auto other = make_heap(4 * kMiB);
  ASSERT_NE(heap, nullptr);
  int on_stack = 0;
  std::byte* const mine = must_allocate(*heap, 1000);
  EXPECT_TRUE(heap->free(nullptr));
  EXPECT_EQ(heap->free(&on_stack).code(), StatusCode::invalid_argument);
  EXPECT_EQ(heap->free(must_allocate(*other, 64)).code(), StatusCode::invalid_argument);
  EXPECT_EQ(heap->free(mine + 64).code(), StatusCode::invalid_argument);
  EXPECT_TRUE(heap->free(mine));
  EXPECT_EQ(heap->free(mine).code(), StatusCode::invalid_argument);
}

TEST(Heap, ContainsIsExactAtItsEdges) {
  auto heap = make_heap(64 * kMiB);
  ASSERT_NE(heap, nullptr);
  std::byte* const pointer = must_allocate(*heap, 100);
  std::byte* const base = pointer - heap->offset_of(pointer);
  int on_stack = 0;
  EXPECT_FALSE(heap->contains(&on_stack, 1));
  EXPECT_FALSE(heap->contains(nullptr, 0));
  EXPECT_TRUE(heap->contains(base, heap->committed_bytes()));
  EXPECT_FALSE(heap->contains(base, heap->committed_bytes() + 1));
  EXPECT_FALSE(heap->contains(base, SIZE_MAX));
  EXPECT_FALSE(heap->contains(base - 1, 1));
  EXPECT_TRUE(heap->contains(base + heap->committed_bytes(), 0));
  EXPECT_FALSE(heap->contains(base + heap->committed_bytes(), 1));
}

TEST(Heap, ThreadsAllocateAndFreeAtOnce) {
  auto heap = make_heap(64 * kMiB);
  ASSERT_NE(heap, nullptr);
  std::vector<std::thread> threads;
  for (int id = 0; id < 4; ++id) {
    threads.emplace_back([&heap, id] {
      for (int i = 0; i < 500; ++i) {
        std::byte* const pointer = must_allocate(*heap, 5000);
        if (pointer == nullptr) return;
        std::memset(pointer, id, 5000);
        EXPECT_EQ(pointer[4999], std::byte(id));
        EXPECT_TRUE(heap->free(pointer));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(heap->live_buffers(), 0U);
}

TEST(Heap, TooSmallAHeapIsRefused) {
  for (const std::size_t bytes : {0UL, 1UL, 4095UL}) {
    EXPECT_EQ(Heap::create({.max_bytes = bytes}).status().code(), StatusCode::invalid_argument);
  }
  auto smallest = make_heap(4096);
  ASSERT_NE(smallest, nullptr);
  EXPECT_TRUE(smallest->allocate(64));
  EXPECT_EQ(smallest->allocate(4096).status().code(), StatusCode::out_of_memory);
}

// Follows lines "offset bytes": adds 1 to every byte there.
const Role adder("adder", [](const RoleArguments& arguments) {
  auto view = HeapView::attach(arguments[0], Deadline::after_ms(5000));
  if (!view) {
    say(view.status().to_string());
    return 1;
  }
  for (std::string line = hear(); !line.empty(); line = hear()) {
    const std::size_t blank = line.find(' ');
    const std::size_t bytes = std::stoull(line.substr(blank));
    auto buffer = view->at(std::stoull(line.substr(0, blank)), bytes);
    if (!buffer) {
      say(buffer.status().to_string());
      continue;
    }
    for (std::size_t i = 0; i < bytes; ++i) (*buffer)[i] = std::byte(std::to_integer<int>((*buffer)[i]) + 1);
    say("added");
  }
  return 0;
});

TEST(Heap, PeerReachesBuffersThroughTheirOffsetsAlsoAfterGrowth) {
  for (const auto backing : {SegmentBacking::memfd, SegmentBacking::shm}) {
    auto heap = Heap::create({.max_bytes = 256 * kMiB, .backing = backing});
    ASSERT_TRUE(heap) << heap.status().to_string();
    RoleProcess peer("adder", {(*heap)->address()});
    for (const std::size_t bytes : {100UL, kMiB, 10 * kMiB}) {  // the last two make the heap grow
      std::byte* const buffer = must_allocate(**heap, bytes);
      ASSERT_NE(buffer, nullptr);
      std::memset(buffer, 6, bytes);
      peer.write_line(std::to_string((*heap)->offset_of(buffer)) + " " + std::to_string(bytes));
      ASSERT_EQ(peer.read_line(), "added");
      for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(buffer[i], std::byte{7});
      (*heap)->seal_attach();  // growth goes on after it
    }
  }
}

TEST(Heap, PeerRefusesOffsetsOutsideOfWhatIsReserved) {
  auto heap = make_heap(64 * kMiB);
  ASSERT_NE(heap, nullptr);
  RoleProcess peer("adder", {heap->address()});
  const std::string committed = std::to_string(heap->committed_bytes());
  for (const std::string& line :
       {committed + " 1", "0 " + std::to_string(heap->committed_bytes() + 1),
        std::string("18446744073709551615 2"), std::string("1 18446744073709551615")}) {
    peer.write_line(line);
    EXPECT_TRUE(peer.read_line().starts_with("corrupt:")) << line;
  }
}

TEST(Heap, BufferOutlivesAKilledPeer) {
  auto heap = make_heap(4 * kMiB);
  ASSERT_NE(heap, nullptr);
  std::byte* const buffer = must_allocate(*heap, 64);
  std::memset(buffer, 1, 64);
  RoleProcess peer("adder", {heap->address()});
  peer.write_line(std::to_string(heap->offset_of(buffer)) + " 64");
  ASSERT_EQ(peer.read_line(), "added");
  peer.send_signal(SIGKILL);
  ASSERT_EQ(peer.wait(), 128 + SIGKILL);
  EXPECT_EQ(buffer[63], std::byte{2});
  EXPECT_TRUE(heap->free(buffer));
}

}  // namespace
}  // namespace slipring::base
