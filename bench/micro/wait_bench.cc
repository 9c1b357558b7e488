// What waiting costs: a hand-over by futex, bare and through the doorbell, by sched_yield, and by spinning with
// and without the publisher's fence. Each iteration is one hand-over there and one back, in wall time.
//
// cores:1 puts both threads on one CPU. BM_publish_without_fence is what a publisher does in asymmetric mode,
// BM_publish_with_fence what it does where membarrier is missing.
#include <benchmark/benchmark.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>

#include "base/wait.h"
#include "bench/micro/pinned_pair.h"

namespace slipring::bench {
namespace {

struct alignas(64) Word {
  std::atomic<std::uint32_t> value{0};
};

constexpr std::uint32_t kEnd = ~std::uint32_t{0};

// Plays hand-overs: side 0 counts up, side 1 answers with the same number. `Hand` publishes and awaits.
template <class Hand>
void play(benchmark::State& state, Hand& hand) {
  const int cores = static_cast<int>(state.range(0));
  if (!PinnedPair::possible(cores)) return state.SkipWithError("not enough CPUs");
  PinnedPair pair(cores, [&hand] {
    for (std::uint32_t i = 1; hand.await(1, i) != kEnd; ++i) hand.publish(1, i);
  });
  std::uint32_t i = 0;
  for (auto _ : state) {
    hand.publish(0, ++i);
    hand.await(0, i);
  }
  hand.publish(0, kEnd);
}

struct BareFutex {
  Word words[2];

  void publish(int side, std::uint32_t value) {
    words[side].value.store(value, std::memory_order_release);
    ::syscall(SYS_futex, &words[side].value, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
  std::uint32_t await(int side, std::uint32_t at_least) {
    auto& word = words[1 - side].value;
    for (;;) {
      const std::uint32_t seen = word.load(std::memory_order_acquire);
      if (seen >= at_least) return seen;
      ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, nullptr, nullptr, 0);
    }
  }
};

class NoWatch final : public base::Watch {
 public:
  Status interrupted() override { return {}; }
  Status check_peers() override { return {}; }
};

struct DoorbellHand {
  static constexpr base::WaitWindows kSleepAtOnce{.spin_ns = 0, .yield_ns = 0};
  Word words[2];
  base::Doorbell bells[2];
  NoWatch watch;
  base::Waiter waiters[2] = {{bells[0], kSleepAtOnce, watch}, {bells[1], kSleepAtOnce, watch}};

  void publish(int side, std::uint32_t value) {
    words[side].value.store(value, std::memory_order_release);
    bells[1 - side].ring();
  }
  std::uint32_t await(int side, std::uint32_t at_least) {
    auto& word = words[1 - side].value;
    const Status s = waiters[side].wait([&] { return word.load(std::memory_order_acquire) >= at_least; });
    return s ? word.load(std::memory_order_acquire) : kEnd;
  }
};

struct YieldHand {
  Word words[2];

  void publish(int side, std::uint32_t value) { words[side].value.store(value, std::memory_order_release); }
  std::uint32_t await(int side, std::uint32_t at_least) {
    std::uint32_t seen;
    while ((seen = words[1 - side].value.load(std::memory_order_acquire)) < at_least) ::sched_yield();
    return seen;
  }
};

// The publisher's way with nobody asleep: store, look for sleepers. Spins, so only on two cores.
template <bool fence>
struct SpinHand {
  Word words[2], sleepers[2];

  void publish(int side, std::uint32_t value) {
    words[side].value.store(value, std::memory_order_release);
    if constexpr (fence) {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    benchmark::DoNotOptimize(sleepers[1 - side].value.load(std::memory_order_relaxed));
  }
  std::uint32_t await(int side, std::uint32_t at_least) {
    std::uint32_t seen;
    while ((seen = words[1 - side].value.load(std::memory_order_acquire)) < at_least) base::cpu_relax();
    return seen;
  }
};

template <class Hand>
void run(benchmark::State& state) {
  Hand hand;
  play(state, hand);
}

BENCHMARK(run<SpinHand<false>>)->Name("BM_publish_without_fence")->ArgName("cores")->Arg(2)->UseRealTime();
BENCHMARK(run<SpinHand<true>>)->Name("BM_publish_with_fence")->ArgName("cores")->Arg(2)->UseRealTime();
BENCHMARK(run<YieldHand>)->Name("BM_yield_hand_over")->ArgName("cores")->Arg(2)->Arg(1)->UseRealTime();
BENCHMARK(run<BareFutex>)->Name("BM_futex_bare")->ArgName("cores")->Arg(2)->Arg(1)->UseRealTime();
BENCHMARK(run<DoorbellHand>)->Name("BM_futex_doorbell")->ArgName("cores")->Arg(2)->Arg(1)->UseRealTime();

}  // namespace
}  // namespace slipring::bench

int main(int argc, char** argv) {
  slipring::base::agree_on_membarrier(slipring::base::register_membarrier());
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
