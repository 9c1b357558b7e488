// Copies as the collectives meet them: how fast a core stores into a buffer by each kind of store, and how
// long the other core then needs to pull it.
//
//   memcpy_bench local                          one core, source and destination of its own
//   memcpy_bench handed_over [seconds] [bytes]  two pinned threads pass one buffer back and forth: the writer
//                                               stores to lines that the reader read last, the reader pulls
//                                               what was just stored
//   memcpy_bench sum_handed_over ...            the same with a sum that also has an output of its own
//
// The host may move virtual CPUs, and with them the time of a cache line, from one moment to the next: onto
// two threads of one core (regime "sibling": they share L1 and L2, so nothing has to move), two cores of one
// L3, or further apart. So each sample stands between two probes (a ping-pong on one line, a pull of 16 KiB),
// counts only when both fall into the same regime, and is compared only with samples of that regime. Kinds of
// store are interleaved, and start after a random delay: two loops that poll each other otherwise fall into
// step, and small sizes come out in steps of half a line's time.
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "copy_variants.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace slipring::collectives {
namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t ticks() {
#if defined(__x86_64__)
  return __rdtsc();  // a clock read costs as much as copying 2 KiB
#else
  return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
#endif
}

double ns_per_tick() {
  const auto clock_begin = Clock::now();
  const std::uint64_t ticks_begin = ticks();
  while (Clock::now() - clock_begin < std::chrono::milliseconds(50)) {
  }
  const std::chrono::duration<double, std::nano> passed = Clock::now() - clock_begin;
  return passed.count() / static_cast<double>(ticks() - ticks_begin);
}

void pin_to_cpu(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set) != 0) {
    fmt::print(stderr, "cannot pin to cpu {}\n", cpu);
    std::exit(2);
  }
}

struct AlignedFree {
  void operator()(std::byte* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<std::byte[], AlignedFree>;

Buffer touched_buffer(std::size_t bytes) {
  Buffer buffer(static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)));
  std::memset(buffer.get(), 1, bytes);
  return buffer;
}

double median(std::vector<double>& values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// --------------------------------------------------------------------------------------------------- local

void run_local(double tick_ns) {
  const std::vector<Kind> kinds = copies();
  fmt::print("{:>10} {:<18} {:>10} {:>8}\n", "bytes", "stores", "ns", "GB/s");
  for (std::size_t bytes = 64; bytes <= (std::size_t{8} << 20); bytes *= 4) {
    const Buffer dst = touched_buffer(bytes);
    const Buffer src = touched_buffer(bytes);
    std::map<std::string_view, std::vector<double>> samples;
    const std::size_t calls = std::max<std::size_t>(1, (std::size_t{1} << 16) / bytes);
    for (int round = 0; round < 200; ++round) {
      for (const Kind& kind : kinds) {
        kind.copy(dst.get(), src.get(), bytes);
        const std::uint64_t begin = ticks();
        for (std::size_t call = 0; call < calls; ++call) kind.copy(dst.get(), src.get(), bytes);
        samples[kind.name].push_back(static_cast<double>(ticks() - begin) * tick_ns /
                                     static_cast<double>(calls));
      }
    }
    for (const Kind& kind : kinds) {
      const double ns = median(samples[kind.name]);
      fmt::print("{:>10} {:<18} {:>10.1f} {:>8.1f}\n", bytes, kind.name, ns, static_cast<double>(bytes) / ns);
    }
  }
}

// --------------------------------------------------------------------------------------------- handed over

enum class Command : std::uint64_t { answer = 0, read = 1, quit = 2 };

/// The writer posts (sequence, command); the reader carries it out and answers with the sequence.
struct Exchange {
  alignas(128) std::atomic<std::uint64_t> posted{
      0};  // written by the writer; pairs with the reader's acquire
  alignas(128) std::atomic<std::uint64_t> answered{
      0};                                    // written by the reader; pairs with the writer's acquire
  std::uint64_t read_ticks = 0;              // published by `answered`
  alignas(128) std::byte* buffer = nullptr;  // published by `posted`
  std::size_t bytes = 0;
};

void run_reader(Exchange& exchange, std::size_t max_bytes) {
  pin_to_cpu(1);
  const Buffer sink = touched_buffer(max_bytes);
  for (std::uint64_t sequence = 1;; ++sequence) {
    std::uint64_t posted = 0;
    while ((posted = exchange.posted.load(std::memory_order_acquire)) >> 2 != sequence) {
    }
    const auto command = static_cast<Command>(posted & 3);
    if (command == Command::read) {
      const std::uint64_t begin = ticks();
      std::memcpy(sink.get(), exchange.buffer, exchange.bytes);
      exchange.read_ticks = ticks() - begin;
    }
    exchange.answered.store(sequence, std::memory_order_release);
    if (command == Command::quit) return;
  }
}

struct HandOver {
  double store_ns;  // until the last store is issued; the store buffer may still be draining
  double pull_ns;   // the reader's copy out
  double trip_ns;  // from the first store to the reader's answer: both, the draining, and two line hand-overs
};

class Writer {
 public:
  Writer(Exchange& exchange, double tick_ns) : exchange_(exchange), tick_ns_(tick_ns) {}

  void call(Command command) {
    ++sequence_;
    exchange_.posted.store(sequence_ << 2 | static_cast<std::uint64_t>(command), std::memory_order_release);
    while (exchange_.answered.load(std::memory_order_acquire) != sequence_) {
    }
  }

  /// One-way time of a line, from a short ping-pong.
  double line_ns() {
    constexpr int kRounds = 24;
    const std::uint64_t begin = ticks();
    for (int i = 0; i < kRounds; ++i) call(Command::answer);
    return static_cast<double>(ticks() - begin) * tick_ns_ / (2 * kRounds);
  }

  HandOver hand_over(Copy copy, const std::byte* source) {
    const std::uint64_t started = ticks();
    while (static_cast<double>(ticks() - started) * tick_ns_ < delay_ns_(random_)) {
    }
    const std::uint64_t begin = ticks();
    copy(exchange_.buffer, source, exchange_.bytes);
    const std::uint64_t stored = ticks();
    call(Command::read);
    const std::uint64_t answered = ticks();
    return {static_cast<double>(stored - begin) * tick_ns_,
            static_cast<double>(exchange_.read_ticks) * tick_ns_,
            static_cast<double>(answered - begin) * tick_ns_};
  }

 private:
  Exchange& exchange_;
  double tick_ns_;
  std::uint64_t sequence_ = 0;
  std::minstd_rand random_;
  std::uniform_real_distribution<double> delay_ns_{0, 1000};
};

struct Probe {
  double line_ns;
  std::string_view regime;
};

Probe probe(Writer& writer, Exchange& exchange, const std::byte* source) {
  const double line_ns = writer.line_ns();
  const std::size_t bytes = std::exchange(exchange.bytes, std::size_t{16} << 10);
  writer.hand_over(store_memcpy, source);
  const double pull_ns = std::min(writer.hand_over(store_memcpy, source).pull_ns,
                                  writer.hand_over(store_memcpy, source).pull_ns);
  exchange.bytes = bytes;
  if ((16 << 10) / pull_ns > 45) return {line_ns, "sibling"};  // no two cores pass data at this rate
  if (line_ns < 45) return {line_ns, "near"};
  return {line_ns, line_ns < 130 ? "middle" : "far"};
}

struct Samples {
  std::vector<double> line_ns, store_ns, pull_ns, trip_ns;
};

void run_handed_over(double tick_ns, double seconds, const std::vector<Kind>& kinds,
                     const std::vector<std::size_t>& sizes) {
  Exchange exchange;
  const Buffer shared = touched_buffer(kLargestBytes);
  const Buffer source = touched_buffer(kLargestBytes);
  exchange.buffer = shared.get();
  std::thread reader(run_reader, std::ref(exchange), kLargestBytes);
  pin_to_cpu(0);
  Writer writer(exchange, tick_ns);

  std::map<std::tuple<std::size_t, std::string_view, std::string_view>, Samples> table;
  int discarded = 0;
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < until) {
    for (const std::size_t bytes : sizes) {
      exchange.bytes = bytes;
      for (const Kind& kind : kinds) {
        const Probe before = probe(writer, exchange, source.get());
        for (int warm = 0; warm < 2; ++warm) writer.hand_over(kind.copy, source.get());
        std::array<HandOver, 4> timed;
        for (auto& t : timed) t = writer.hand_over(kind.copy, source.get());
        const Probe after = probe(writer, exchange, source.get());
        if (before.regime != after.regime) {
          ++discarded;
          continue;
        }
        Samples& samples = table[{bytes, before.regime, kind.name}];
        samples.line_ns.push_back((before.line_ns + after.line_ns) / 2);
        for (const HandOver& t : timed) {
          samples.store_ns.push_back(t.store_ns);
          samples.pull_ns.push_back(t.pull_ns);
          samples.trip_ns.push_back(t.trip_ns);
        }
      }
    }
  }
  writer.call(Command::quit);
  reader.join();

  fmt::print("{:>8} {:<7} {:<17} {:>5} {:>7} {:>10} {:>7} {:>10} {:>7} {:>10}\n", "bytes", "regime", "stores",
             "n", "line ns", "store ns", "GB/s", "pull ns", "GB/s", "trip ns");
  for (auto& [key, samples] : table) {
    const auto& [bytes, regime, name] = key;
    const double store_ns = median(samples.store_ns);
    const double pull_ns = median(samples.pull_ns);
    const auto size = static_cast<double>(bytes);
    fmt::print("{:>8} {:<7} {:<17} {:>5} {:>7.0f} {:>10.0f} {:>7.1f} {:>10.0f} {:>7.1f} {:>10.0f}\n", bytes,
               regime, name, samples.line_ns.size(), median(samples.line_ns), store_ns, size / store_ns,
               pull_ns, size / pull_ns, median(samples.trip_ns));
  }
  fmt::print("samples discarded because the regime changed {}\n", discarded);
}

}  // namespace
}  // namespace slipring::collectives

int main(int argc, char** argv) {
  namespace collectives = slipring::collectives;
  const std::string mode = argc > 1 ? argv[1] : "";
  const double tick_ns = collectives::ns_per_tick();
  if (mode == "local") {
    collectives::pin_to_cpu(0);
    collectives::run_local(tick_ns);
  } else if (mode == "handed_over" || mode == "sum_handed_over") {
    const double seconds = argc > 2 ? std::atof(argv[2]) : 20;
    std::vector<std::size_t> sizes;
    for (int i = 3; i < argc; ++i)
      sizes.push_back(std::min<std::size_t>(std::strtoull(argv[i], nullptr, 10), collectives::kLargestBytes));
    if (sizes.empty()) sizes = {512, 1 << 10, 2 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20};
    collectives::run_handed_over(tick_ns, seconds,
                                 mode == "handed_over" ? collectives::copies() : collectives::sums(), sizes);
  } else {
    fmt::print(stderr,
               "usage: memcpy_bench local | handed_over [seconds] [bytes...] | sum_handed_over [seconds] "
               "[bytes...]\n");
    return 2;
  }
  return 0;
}
