// Probe of the link between two cores: the one-way time of a cache line, from two pinned threads that pass one
// line to and fro for about a millisecond. Reads one byte per probe from stdin and answers with a line
// "median_ns min_ns max_ns"; blocked in read between probes. Usage: linkprobe CORE CORE. Ends at end of file.
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

constexpr int kBatches = 9;
constexpr std::uint64_t kRoundTrips = 200;

struct alignas(64) Line {
  std::atomic<std::uint64_t> turn{0};
  char pad[56];
};
Line line;

bool pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(core), &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

void await(std::uint64_t value) {
  // Pairs with the other thread's release store of the same line: its turn is over.
  while (line.turn.load(std::memory_order_acquire) != value) __builtin_ia32_pause();
}

// Answers kBatches + 1 batches (the first is not timed) per byte that comes through the pipe.
void answer(int core, int wake) {
  if (!pin(core)) std::exit(2);
  for (char byte; ::read(wake, &byte, 1) == 1;) {
    for (std::uint64_t i = 0; i < (kBatches + 1) * kRoundTrips; ++i) {
      await(2 * i + 1);
      line.turn.store(2 * i + 2, std::memory_order_release);  // pairs with await() of the asking thread
    }
  }
}

void probe(int wake) {
  line.turn.store(0, std::memory_order_relaxed);  // the other thread is blocked in read: nobody looks
  if (::write(wake, "p", 1) != 1) std::exit(2);
  double ns[kBatches];
  std::uint64_t i = 0;
  for (int batch = -1; batch < kBatches; ++batch) {
    const auto start = std::chrono::steady_clock::now();
    for (std::uint64_t end = i + kRoundTrips; i < end; ++i) {
      line.turn.store(2 * i + 1, std::memory_order_release);  // pairs with await() of the answering thread
      await(2 * i + 2);
    }
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    if (batch >= 0) ns[batch] = spent.count() / (2.0 * kRoundTrips);
  }
  std::sort(ns, ns + kBatches);
  std::printf("%.1f %.1f %.1f\n", ns[kBatches / 2], ns[0], ns[kBatches - 1]);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  int wake[2];
  if (argc != 3 || ::pipe(wake) != 0 || !pin(std::atoi(argv[1]))) {
    std::fprintf(stderr, "usage: linkprobe CORE CORE (two cores of this process's cpuset)\n");
    return 2;
  }
  std::thread other(answer, std::atoi(argv[2]), wake[0]);
  for (char byte; ::read(STDIN_FILENO, &byte, 1) == 1;) probe(wake[1]);
  ::close(wake[1]);
  other.join();
  return 0;
}
