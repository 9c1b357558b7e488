#include "base/fiber.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "base/status.h"

namespace slipring::base {
namespace {

TEST(Fiber, runs_until_it_suspends_and_goes_on_where_it_was) {
  std::string log;
  Fiber fiber([&] {
    log += 'a';
    EXPECT_TRUE(Fiber::current()->suspend());
    log += 'c';
  });
  EXPECT_EQ(Fiber::current(), nullptr);
  fiber.resume();
  EXPECT_FALSE(fiber.finished());
  log += 'b';
  fiber.resume();
  EXPECT_TRUE(fiber.finished());
  EXPECT_EQ(log, "abc");
}

TEST(Fiber, brings_news_inside) {
  Status told;
  Fiber fiber([&] { told = Fiber::current()->suspend(); });
  fiber.resume();
  fiber.resume(error(StatusCode::timeout, "too late"));
  EXPECT_EQ(told.code(), StatusCode::timeout);
}

TEST(Fiber, never_begun_is_destroyed_in_peace) { Fiber fiber([] { FAIL(); }); }

int deep(int n) {
  volatile char frame[512] = {};
  frame[0] = static_cast<char>(n);
  return n == 0 ? frame[0] : deep(n - 1) + frame[0] * 0;
}

TEST(Fiber, has_room_for_deep_calls_and_exceptions) {
  int caught = 0;
  Fiber fiber([&] {
    EXPECT_EQ(deep(100), 0);
    try {
      throw std::runtime_error(std::string(1000, 'x'));
    } catch (const std::runtime_error& e) {
      caught = static_cast<int>(std::string(e.what()).size());
    }
    (void)Fiber::current()->suspend();
  });
  fiber.resume();
  fiber.resume();
  EXPECT_EQ(caught, 1000);
}

TEST(Fiber, many_take_turns) {
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<int> counts(50);
  for (int& count : counts)
    fibers.push_back(std::make_unique<Fiber>([&count] {
      for (; count < 100; ++count) (void)Fiber::current()->suspend();
    }));
  for (bool left = true; left;) {
    left = false;
    for (auto& f : fibers)
      if (!f->finished()) {
        f->resume();
        left = true;
      }
  }
  for (const int count : counts) EXPECT_EQ(count, 100);
}

TEST(Fiber, may_go_on_on_another_thread) {
  std::vector<std::thread::id> ids;
  Fiber fiber([&] {
    for (int i = 0; i < 4; ++i) {
      ids.push_back(std::this_thread::get_id());
      EXPECT_NE(Fiber::current(), nullptr);
      (void)Fiber::current()->suspend();
    }
  });
  fiber.resume();
  for (int i = 0; i < 4; ++i) std::thread([&] { fiber.resume(); }).join();
  EXPECT_TRUE(fiber.finished());
  EXPECT_EQ(ids.size(), 4u);
}

}  // namespace
}  // namespace slipring::base
