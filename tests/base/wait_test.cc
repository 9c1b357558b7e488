// Waiting: what ends a wait, what a wait costs, and that no wake-up is lost, between threads and processes.
//
// A lost wake-up shows as a wait as long as a liveness period, which is when a sleeper looks by itself.
#include "base/wait.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/segment.h"
#include "base/status.h"
#include "tests/base/role_process.h"

namespace slipring::base {
namespace {

using std::chrono::milliseconds;
using tests::Role;
using tests::RoleArguments;
using tests::RoleProcess;

constexpr std::int64_t kMs = 1'000'000;
constexpr WaitWindows kSleepAtOnce{.spin_ns = 0, .yield_ns = 0, .liveness_ns = 10'000 * kMs, .timeout_ns = 50'000 * kMs};

// Whether a wait that began then, with kSleepAtOnce, ended only because the liveness period did.
bool was_lost(Clock::time_point begin) { return Clock::now() - begin >= std::chrono::nanoseconds(kSleepAtOnce.liveness_ns); }

class CountingWatch final : public Watch {
 public:
  Status interrupted() override { return poison_ ? error(StatusCode::aborted, "poisoned by the test") : Status(); }
  Status check_peers() override {
    ++checks_;
    return checks_ == fails_at_ ? error(StatusCode::peer_lost, "rank 3 is gone") : Status();
  }
  void fail_at(int check) { fails_at_ = check; }
  void poison() { poison_ = true; }
  int checks() const { return checks_; }

 private:
  std::atomic<bool> poison_{false};
  std::atomic<int> checks_{0};
  int fails_at_ = 0;
};

TEST(Wait, ForWhatIsThereAlreadyCostsNothing) {
  Doorbell bell{};
  CountingWatch watch;
  watch.poison();  // what is ready counts more
  Waiter waiter(bell, {}, watch);
  EXPECT_TRUE(waiter.wait([] { return true; }));
  EXPECT_EQ(waiter.counts().slow_waits, 0u);
}

TEST(Wait, EndsAtTheDeadlineOrAtTheTimeoutOfTheWindows) {
  Doorbell bell{};
  CountingWatch watch;
  WaitWindows windows;
  windows.timeout_ns = 30 * kMs;
  Waiter waiter(bell, windows, watch);
  for (const bool given : {false, true}) {
    const auto begin = Clock::now();
    const Deadline deadline = Deadline::after(milliseconds(60));
    const Status s = waiter.wait([] { return false; }, given ? &deadline : nullptr);
    EXPECT_EQ(s.code(), StatusCode::timeout);
    EXPECT_NE(s.message().find("ms"), std::string::npos) << s.message();
    EXPECT_GE(Clock::now() - begin, milliseconds(given ? 60 : 30));
  }
}

TEST(Wait, ADeadlineThatHasPassedStillLooksOnce) {
  Doorbell bell{};
  CountingWatch watch;
  Waiter waiter(bell, kSleepAtOnce, watch);
  const Deadline passed = Deadline::after(milliseconds(-5));
  EXPECT_EQ(waiter.wait([] { return false; }, &passed).code(), StatusCode::timeout);
  int looks = 0;
  EXPECT_TRUE(waiter.wait([&] { return ++looks == 2; }, &passed));
}

TEST(Wait, SpinsThenYieldsThenSleeps) {
  struct Case {
    std::int64_t spin_ns, yield_ns;
    bool yields, sleeps;
  };
  for (const Case c : {Case{10'000 * kMs, 0, false, false}, Case{kMs, 10'000 * kMs, true, false},
                       Case{0, 0, false, true}, Case{kMs, 0, false, true}}) {
    Doorbell bell{};
    CountingWatch watch;
    WaitWindows windows = kSleepAtOnce;
    windows.spin_ns = c.spin_ns;
    windows.yield_ns = c.yield_ns;
    Waiter waiter(bell, windows, watch);
    const Deadline deadline = Deadline::after(milliseconds(40));
    EXPECT_EQ(waiter.wait([] { return false; }, &deadline).code(), StatusCode::timeout);
    EXPECT_EQ(waiter.counts().yields > 0, c.yields) << c.spin_ns << " " << c.yield_ns;
    EXPECT_EQ(waiter.counts().sleeps > 0, c.sleeps) << c.spin_ns << " " << c.yield_ns;
  }
}

TEST(VainWindow, ShrinksWhileShortSleepsHelpAndGrowsWhenYieldingDoes) {
  VainWindow window;
  const auto longest = window.length();
  window.slept(milliseconds(50));
  EXPECT_EQ(window.length(), longest) << "a long sleep says nothing against yielding";
  for (int i = 0; i < 50; ++i) window.slept(std::chrono::microseconds(5));
  const auto shortest = window.length();
  EXPECT_LT(shortest, longest / 10);
  EXPECT_GT(shortest.count(), 0);
  window.yielding_helped(shortest / 4);
  EXPECT_EQ(window.length(), shortest) << "a yield or two are no reason to yield for longer";
  for (int i = 0; i < 200; ++i) window.yielding_helped(window.length());
  EXPECT_EQ(window.length(), longest);
}

TEST(Wait, ShowsItsCountsInCounters) {
  Doorbell bell{};
  CountingWatch watch;
  Waiter waiter(bell, kSleepAtOnce, watch);
  CounterBlock counters;
  waiter.show_counts_in(counters);
  const Deadline deadline = Deadline::after(milliseconds(30));
  EXPECT_FALSE(waiter.wait([] { return false; }, &deadline));
  EXPECT_GT(counters.sleeps.value(), 0u);
  EXPECT_EQ(counters.sleeps.value(), waiter.counts().sleeps);
}

TEST(Wait, AsksForThePeersOncePerPeriodAndPassesTheAnswerOn) {
  Doorbell bell{};
  CountingWatch watch;
  watch.fail_at(4);
  WaitWindows windows = kSleepAtOnce;
  windows.liveness_ns = 2 * kMs;
  Waiter waiter(bell, windows, watch);
  const auto begin = Clock::now();
  const Status s = waiter.wait([] { return false; });
  EXPECT_EQ(s.code(), StatusCode::peer_lost);
  EXPECT_EQ(s.message(), "rank 3 is gone");
  EXPECT_EQ(watch.checks(), 4);
  EXPECT_EQ(waiter.counts().checks, 4u);
  EXPECT_GE(Clock::now() - begin, milliseconds(8));
}

TEST(Wait, APoisonReachesASleeperWithoutALivenessPeriod) {
  for (int round = 0; round < 200; ++round) {
    Doorbell bell{};
    CountingWatch watch;
    std::atomic<bool> begun{false};
    Status s;
    bool lost = false;
    std::thread sleeper([&] {
      Waiter waiter(bell, kSleepAtOnce, watch);
      const auto begin = Clock::now();
      begun = true;
      s = waiter.wait([] { return false; });
      lost = was_lost(begin);
    });
    while (!begun) cpu_relax();
    for (int i = 0; i < round * 20; ++i) cpu_relax();  // meets the sleeper at every step of its way
    watch.poison();
    if (round % 2) {
      bell.ring();
    } else {
      bell.wake();
    }
    sleeper.join();
    EXPECT_EQ(s.code(), StatusCode::aborted) << s.to_string();
    ASSERT_FALSE(lost) << "slept through the poison, round " << round;
  }
}

// Poisons right after the waiter has looked for poison for the first time, when it has not announced itself yet.
class LatePoison final : public Watch {
 public:
  explicit LatePoison(Doorbell& bell) : bell_(bell) {}
  Status interrupted() override {
    if (looks_++ > 0) return error(StatusCode::aborted, "poisoned by the test");
    bell_.ring();
    return {};
  }
  Status check_peers() override { return {}; }

 private:
  Doorbell& bell_;
  int looks_ = 0;
};

TEST(Wait, APoisonBetweenTheLookAndTheAnnouncementIsSeen) {
  Doorbell bell{};
  LatePoison watch(bell);
  Waiter waiter(bell, kSleepAtOnce, watch);
  EXPECT_EQ(waiter.wait([] { return false; }).code(), StatusCode::aborted);
  EXPECT_EQ(waiter.counts().sleeps, 0u);
}

TEST(Wait, ManyPublishersWakeOneSleeper) {
  constexpr int kPublishers = 4;
  constexpr int kEach = kThreadSanitizer ? 500 : 5'000;
  Doorbell bell{};
  CountingWatch watch;
  std::atomic<int> published{0};
  std::vector<std::thread> publishers;
  for (int p = 0; p < kPublishers; ++p) {
    publishers.emplace_back([&, p] {
      std::minstd_rand random(p + 1);
      for (int i = 0; i < kEach; ++i) {
        published.fetch_add(1, std::memory_order_release);
        bell.ring();
        for (unsigned n = random() % 200; n > 0; --n) cpu_relax();
      }
    });
  }
  Waiter waiter(bell, kSleepAtOnce, watch);
  for (int seen = 0; seen < kPublishers * kEach;) {
    const auto begin = Clock::now();
    const Status s = waiter.wait([&] { return published.load(std::memory_order_acquire) > seen; });
    EXPECT_TRUE(s) << s.to_string();
    EXPECT_FALSE(was_lost(begin)) << "a wake-up was lost";
    if (HasFailure()) break;
    seen = published.load(std::memory_order_acquire);
  }
  for (auto& t : publishers) t.join();
}

TEST(Wait, SeveralSleepersAtOneDoorbellAllWake) {
  Doorbell bell{};
  std::atomic<int> published{0}, taken{0};
  constexpr int kRounds = kThreadSanitizer ? 200 : 2'000;
  constexpr int kSleepers = 3;
  std::vector<std::thread> sleepers;
  for (int n = 0; n < kSleepers; ++n) {
    sleepers.emplace_back([&] {
      CountingWatch watch;
      Waiter waiter(bell, kSleepAtOnce, watch);
      for (int round = 1; round <= kRounds; ++round) {
        const auto begin = Clock::now();
        EXPECT_TRUE(waiter.wait([&] { return published.load(std::memory_order_acquire) >= round; }));
        EXPECT_FALSE(was_lost(begin)) << "a wake-up was lost";
        taken.fetch_add(1, std::memory_order_release);
      }
    });
  }
  for (int round = 1; round <= kRounds; ++round) {
    while (taken.load(std::memory_order_acquire) < (round - 1) * kSleepers) std::this_thread::yield();
    published.store(round, std::memory_order_release);
    bell.ring();
  }
  for (auto& t : sleepers) t.join();
}

// A publisher and a sleeper that meet, both awake, just before one publishes and the other goes to sleep: the
// few nanoseconds in which a wake-up can be lost are hit many times in a run.
struct Hunt {
  Doorbell bell;
  struct alignas(64) Number {
    std::atomic<std::uint32_t> value;
  } about, published, taken;

  static void await_awake(const Number& number, std::uint32_t at_least) {
    for (int i = 0; number.value.load(std::memory_order_acquire) < at_least; ++i) {
      cpu_relax();
      if (i % 1024 == 1023) std::this_thread::yield();
    }
  }
  static void pause(std::minstd_rand& random, unsigned most) {
    for (unsigned n = random() % most; n > 0; --n) cpu_relax();
  }

  void publish(std::uint32_t rounds, std::uint64_t seed) {
    std::minstd_rand random(static_cast<unsigned>(seed));
    for (std::uint32_t i = 1; i <= rounds; ++i) {
      await_awake(taken, i - 1);
      about.value.store(i, std::memory_order_release);
      pause(random, 40);
      published.value.store(i, std::memory_order_release);
      bell.ring();
    }
  }

  // False once a wake-up was lost; the rest of the rounds is then not played.
  bool sleep(std::uint32_t rounds, std::uint64_t seed) {
    CountingWatch watch;
    Waiter waiter(bell, kSleepAtOnce, watch);
    std::minstd_rand random(static_cast<unsigned>(seed + 1));
    bool lost = false;
    for (std::uint32_t i = 1; i <= rounds && !lost; ++i) {
      await_awake(about, i);
      pause(random, 20);
      const auto begin = Clock::now();
      const Status s = waiter.wait([&] { return published.value.load(std::memory_order_acquire) >= i; });
      EXPECT_TRUE(s) << s.to_string();
      lost = was_lost(begin);
      taken.value.store(lost ? rounds : i, std::memory_order_release);
    }
    return !lost;
  }
};

constexpr std::uint32_t kRounds = kThreadSanitizer ? 5'000 : 60'000;

TEST(Wait, LosesNoWakeUpBetweenThreads) {
  const std::uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  Hunt hunt{};
  std::thread publisher([&] { hunt.publish(kRounds, seed); });
  EXPECT_TRUE(hunt.sleep(kRounds, seed)) << "a wake-up was lost";
  publisher.join();
}

const Role hunter("hunter", [](const RoleArguments& arguments) {
  const bool registered = register_membarrier();
  const bool asymmetric = arguments[2] == "asymmetric";
  if (asymmetric && !registered) return 77;
  agree_on_membarrier(asymmetric);
  auto segment = Segment::attach(arguments[0], Deadline::after_ms(50'000));
  if (!segment) return 2;
  auto& hunt = *reinterpret_cast<Hunt*>((*segment)->data());
  const std::uint64_t seed = std::stoull(arguments[3]);
  if (arguments[1] == "publish") {
    hunt.publish(kRounds, seed);
    return 0;
  }
  return hunt.sleep(kRounds, seed) && !::testing::UnitTest::GetInstance()->Failed() ? 0 : 1;
});

class WaitBetweenProcesses : public ::testing::TestWithParam<const char*> {};

TEST_P(WaitBetweenProcesses, LosesNoWakeUp) {
  if (GetParam() == std::string("asymmetric") && !register_membarrier())
    GTEST_SKIP() << "membarrier is missing or denied here";
  auto segment = Segment::create({.bytes = sizeof(Hunt), .tag = "hunt for lost wake-ups"});
  ASSERT_TRUE(segment) << segment.status().to_string();
  new ((*segment)->data()) Hunt{};
  const std::string seed = std::to_string(std::random_device{}());
  std::printf("seed %s\n", seed.c_str());
  RoleProcess sleeper("hunter", {(*segment)->address(), "sleep", GetParam(), seed});
  RoleProcess publisher("hunter", {(*segment)->address(), "publish", GetParam(), seed});
  EXPECT_EQ(sleeper.wait(), 0) << "a wake-up was lost";
  EXPECT_EQ(publisher.wait(), 0);
}

INSTANTIATE_TEST_SUITE_P(Fences, WaitBetweenProcesses, ::testing::Values("asymmetric", "symmetric"),
                         [](const auto& p) { return std::string(p.param); });

}  // namespace
}  // namespace slipring::base
