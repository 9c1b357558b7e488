// PinnedPair: the calling thread and a partner, each on a CPU of its own or both on one, for as long as the object
// lives. Pinning is the bench's business; the library never moves a thread. One object at a time per thread.
#pragma once

#include <sched.h>

#include <thread>
#include <utility>
#include <vector>

namespace slipring::bench {

inline std::vector<int> allowed_cpus() {
  cpu_set_t set;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    }
  }
  return cpus;
}

class PinnedPair {
 public:
  /// `cores` is 1 or 2. The partner runs `body` and must end by itself once the benchmark tells it to.
  template <class Body>
  PinnedPair(int cores, Body body) {
    sched_getaffinity(0, sizeof(before_), &before_);
    const std::vector<int> cpus = allowed_cpus();
    const int partner_cpu = cpus[cores == 1 ? 0 : 1];
    pin(cpus[0]);
    partner_ = std::thread([partner_cpu, body = std::move(body)]() mutable {
      pin(partner_cpu);
      body();
    });
  }
  ~PinnedPair() {
    partner_.join();
    sched_setaffinity(0, sizeof(before_), &before_);
  }
  PinnedPair(const PinnedPair&) = delete;
  PinnedPair& operator=(const PinnedPair&) = delete;

  static bool possible(int cores) { return static_cast<int>(allowed_cpus().size()) >= cores; }

 private:
  static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof(set), &set);
  }

  cpu_set_t before_{};
  std::thread partner_;
};

}  // namespace slipring::bench
