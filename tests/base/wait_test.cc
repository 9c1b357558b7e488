// Waiting: what ends a wait, what a wait costs, and that no wake-up is lost, between threads and processes.
//
// A lost wake-up shows as a check of the peers: the liveness period is set longer than the test, so that a
// sleeper gets there only if nobody rang.
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
constexpr WaitWindows kSleepAtOnce{.spin_ns = 0, .yield_ns = 0, .liveness_ns = 20'000 * kMs, .timeout_ns = 50'000 * kMs};

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
  for (const Case c : {Case{10'000 * kMs, 0, false, false}, Case{0, 10'000 * kMs, true, false},
                       Case{0, 0, false, true}, Case{kMs, 5 * kMs, true, true}}) {
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
    std::thread sleeper([&] {
      Waiter waiter(bell, kSleepAtOnce, watch);
      begun = true;
      s = waiter.wait([] { return false; });
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
    ASSERT_EQ(watch.checks(), 0) << "slept through the poison, round " << round;
  }
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
    const Status s = waiter.wait([&] { return published.load(std::memory_order_acquire) > seen; });
    ASSERT_TRUE(s) << s.to_string();
    seen = published.load(std::memory_order_acquire);
  }
  for (auto& t : publishers) t.join();
  EXPECT_EQ(watch.checks(), 0) << "a wake-up was lost";
}

TEST(Wait, SeveralSleepersAtOneDoorbellAllWake) {
  Doorbell bell{};
  std::atomic<int> published{0}, taken{0};
  constexpr int kRounds = kThreadSanitizer ? 200 : 2'000;
  constexpr int kSleepers = 3;
  std::vector<std::thread> sleepers;
  std::atomic<int> checks{0};
  for (int n = 0; n < kSleepers; ++n) {
    sleepers.emplace_back([&] {
      CountingWatch watch;
      Waiter waiter(bell, kSleepAtOnce, watch);
      for (int round = 1; round <= kRounds; ++round) {
        EXPECT_TRUE(waiter.wait([&] { return published.load(std::memory_order_acquire) >= round; }));
        taken.fetch_add(1, std::memory_order_release);
      }
      checks += watch.checks();
    });
  }
  for (int round = 1; round <= kRounds; ++round) {
    while (taken.load(std::memory_order_acquire) < (round - 1) * kSleepers) std::this_thread::yield();
    published.store(round, std::memory_order_release);
    bell.ring();
  }
  for (auto& t : sleepers) t.join();
  EXPECT_EQ(checks, 0) << "a wake-up was lost";
}

// Two sides that hand a number to and fro, each asleep while the other works, with random pauses that meet the
// other on its way to sleep.
struct PingPong {
  Doorbell bells[2];
  struct alignas(64) Number {
    std::atomic<std::uint32_t> value;
  } numbers[2];

  // Returns the number of liveness checks, which is the number of lost wake-ups.
  std::uint64_t play(int side, std::uint32_t rounds, std::uint64_t seed) {
    CountingWatch watch;
    Waiter waiter(bells[side], kSleepAtOnce, watch);
    std::minstd_rand random(static_cast<unsigned>(seed + side));
    const auto& theirs = numbers[1 - side].value;
    for (std::uint32_t i = 1; i <= rounds; ++i) {
      const auto theirs_came = [&] { return theirs.load(std::memory_order_acquire) >= i; };
      if (side == 1) {
        EXPECT_TRUE(waiter.wait(theirs_came));
      }
      for (unsigned n = random() % 64; n > 0; --n) cpu_relax();
      numbers[side].value.store(i, std::memory_order_release);
      bells[1 - side].ring();
      if (side == 0) {
        EXPECT_TRUE(waiter.wait(theirs_came));
      }
    }
    return watch.checks();
  }
};

constexpr std::uint32_t kRounds = kThreadSanitizer ? 2'000 : 60'000;

TEST(Wait, LosesNoWakeUpBetweenThreads) {
  const std::uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  PingPong game{};
  std::uint64_t lost = 0;
  std::thread other([&] { lost = game.play(1, kRounds, seed); });
  EXPECT_EQ(game.play(0, kRounds, seed), 0u);
  other.join();
  EXPECT_EQ(lost, 0u);
}

const Role player("player", [](const RoleArguments& arguments) {
  const bool registered = register_membarrier();
  const bool asymmetric = arguments[2] == "asymmetric";
  if (asymmetric && !registered) return 77;
  agree_on_membarrier(asymmetric);
  auto segment = Segment::attach(arguments[0], Deadline::after_ms(50'000));
  if (!segment) return 2;
  auto& game = *reinterpret_cast<PingPong*>((*segment)->data());
  const auto lost = game.play(std::stoi(arguments[1]), kRounds, std::stoull(arguments[3]));
  return lost == 0 && !::testing::UnitTest::GetInstance()->Failed() ? 0 : 1;
});

class WaitBetweenProcesses : public ::testing::TestWithParam<const char*> {};

TEST_P(WaitBetweenProcesses, LosesNoWakeUp) {
  if (GetParam() == std::string("asymmetric") && !register_membarrier())
    GTEST_SKIP() << "membarrier is missing or denied here";
  auto segment = Segment::create({.bytes = sizeof(PingPong), .tag = "ping pong"});
  ASSERT_TRUE(segment) << segment.status().to_string();
  new ((*segment)->data()) PingPong{};
  const std::string seed = std::to_string(std::random_device{}());
  std::printf("seed %s\n", seed.c_str());
  RoleProcess zero("player", {(*segment)->address(), "0", GetParam(), seed});
  RoleProcess one("player", {(*segment)->address(), "1", GetParam(), seed});
  EXPECT_EQ(zero.wait(), 0);
  EXPECT_EQ(one.wait(), 0);
}

INSTANTIATE_TEST_SUITE_P(Fences, WaitBetweenProcesses, ::testing::Values("asymmetric", "symmetric"),
                         [](const auto& p) { return std::string(p.param); });

}  // namespace
}  // namespace slipring::base
