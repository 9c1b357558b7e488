#include "base/lent_threads.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <numeric>

namespace slipring::base {
namespace {

TEST(LentThreads, none_are_none) {
  EXPECT_EQ(LentThreads::start(0), nullptr);
  EXPECT_EQ(LentThreads::start(-1), nullptr);
}

TEST(LentThreads, cover_every_byte_once_and_begin_at_lines) {
  for (const int count : {1, 2, 3, 7}) {
    const auto threads = LentThreads::start(count);
    ASSERT_EQ(threads->parts(), count + 1);
    for (const std::size_t bytes : {0u, 1u, 63u, 64u, 65u, 640u, 4096u, 100'003u}) {
      std::vector<std::atomic<int>> touched(bytes);
      std::atomic<int> off_line{0};
      threads->share(bytes, [&](int part, std::size_t begin, std::size_t end) {
        off_line += begin % 64 != 0 || part < 0 || part > count;
        for (std::size_t i = begin; i < end; ++i) ++touched[i];
      });
      EXPECT_EQ(off_line, 0);
      for (const auto& t : touched) ASSERT_EQ(t, 1);
    }
  }
}

TEST(LentThreads, leave_what_they_stored_visible) {
  const auto threads = LentThreads::start(3);
  std::vector<int> from(50'000), to(from.size());
  for (int round = 0; round < 500; ++round) {
    std::iota(from.begin(), from.end(), round);
    threads->share(from.size() * sizeof(int), [&](int, std::size_t begin, std::size_t end) {
      std::memcpy(reinterpret_cast<std::byte*>(to.data()) + begin, reinterpret_cast<std::byte*>(from.data()) + begin, end - begin);
    });
    ASSERT_EQ(to, from);
  }
}

TEST(LentThreads, serve_callers_on_several_threads) {
  const auto threads = LentThreads::start(2);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 3; ++c)
    callers.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        std::atomic<std::size_t> sum{0};
        threads->share(1000, [&](int, std::size_t begin, std::size_t end) { sum += end - begin; });
        wrong += sum != 1000;
      }
    });
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(LentThreads, cost_nothing_when_idle) {
  const auto threads = LentThreads::start(3);
  threads->share(1000, [](int, std::size_t, std::size_t) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  ::getrusage(RUSAGE_SELF, &after);
  const auto us = [](const rusage& r) { return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1'000'000 + r.ru_utime.tv_usec + r.ru_stime.tv_usec; };
  EXPECT_LT(us(after) - us(before), 5000);
}

}  // namespace
}  // namespace slipring::base
