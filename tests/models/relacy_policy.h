// Relacy behind the Policy parameter of the shipping headers, with every order breakable by name.
//
// An atomic knows the edge it carries. `broken` names one order: the writer's half or the reader's half of an
// edge, which then becomes relaxed, or a fence, which is then left out. A model that still passes with an
// order broken does not show that the order is needed. One thread; Relacy runs its threads as fibers.
//
// Include this after the headers under test: relacy.hpp defines macros for new, delete, assert and the orders.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/models/relacy_silent.h"

namespace slipring::models {

/// The order that this run leaves out, EDGE.half with the edge's name of docs/memory_model.md; none if empty.
inline std::string broken;

/// Relacy's account of the failing interleaving goes to stdout.
inline bool show_history = false;

inline bool is_broken(std::string_view edge, std::string_view half) {
  return broken.size() == edge.size() + 1 + half.size() && broken.starts_with(edge) && broken.ends_with(half);
}

template <class T>
struct ModelAtomic {
  rl::atomic<T> value;
  std::string_view edge;

  /// Before the threads start.
  void begin(std::string_view edge_name, T first) {
    edge = edge_name;
    value.store(first, rl::mo_relaxed, $);
  }
};

struct RelacyPolicy {
  template <class T>
  using Atomic = ModelAtomic<T>;
  template <class T>
  using Guarded = rl::var<T>;

  template <class T>
  static T load_acquire(const Atomic<T>& a) {
    return a.value.load(is_broken(a.edge, "reader") ? rl::mo_relaxed : rl::mo_acquire, $);
  }
  template <class T>
  static T load_relaxed(const Atomic<T>& a) {
    return a.value.load(rl::mo_relaxed, $);
  }
  template <class T>
  static void store_release(Atomic<T>& a, T v) {
    a.value.store(v, is_broken(a.edge, "writer") ? rl::mo_relaxed : rl::mo_release, $);
  }
  template <class T>
  static T read(const Guarded<T>& v) {
    return v($);
  }
  template <class T>
  static void write(Guarded<T>& v, T value) {
    v($) = value;
  }

  // Doorbell. The two halves of the uneven fence are, together, a full barrier: both are modelled as one.
  static std::uint32_t fence_then_load(const Atomic<std::uint32_t>& sleepers) {
    if (!is_broken("WAKE", "publisher_fence")) rl::atomic_thread_fence(rl::mo_seq_cst, $);
    return sleepers.value.load(rl::mo_relaxed, $);
  }
  static void add_then_fence(Atomic<std::uint32_t>& sleepers) {
    sleepers.value.fetch_add(1, rl::mo_relaxed, $);
    if (!is_broken("WAKE", "sleeper_fence")) rl::atomic_thread_fence(rl::mo_seq_cst, $);
  }
  static void subtract_relaxed(Atomic<std::uint32_t>& a) { a.value.fetch_sub(1, rl::mo_relaxed, $); }
  static void add_release(Atomic<std::uint32_t>& a) {
    a.value.fetch_add(1, is_broken(a.edge, "writer") ? rl::mo_relaxed : rl::mo_release, $);
  }
  // The kernel compares the newest value and queues the caller in one step: nothing is scheduled between the
  // read-modify-write and the wait. No time-out and no spurious wake-up, which would hide a lost one.
  template <class Span>
  static void futex_wait(Atomic<std::uint32_t>& word, std::uint32_t seen, Span) {
    if (word.value.fetch_add(0, rl::mo_relaxed, $) == seen) word.value.wait(rl::ctx(), false, false, $);
  }
  static void futex_wake_all(Atomic<std::uint32_t>& word) {
    rl::ctx().sched();
    word.value.wake(rl::ctx(), rl::ctx().get_thread_count(), $);
  }
};

/// Yields the model's thread, so that another one can bring what is awaited.
inline void model_yield() { rl::yield(1, $); }

/// How hard to search.
struct Search {
  std::uint64_t random_runs;
  unsigned context_bound;  ///< exhaustive up to this many forced switches; 0: not at all
};

/// Runs Test; true if nothing was found. `found` gets Relacy's one-line verdict.
template <class Test>
bool explore(const Search& search, std::string& found) {
  // No buffer: a stream that grew while Relacy runs would take its memory from the modelled program.
  std::ostream sink(show_history ? std::cout.rdbuf() : nullptr);
  const auto run = [&](rl::scheduler_type_e kind) {
    rl::test_params params;
    params.search_type = kind;
    params.iteration_count = search.random_runs;
    params.context_bound = search.context_bound;
    params.execution_depth_limit = 4000;
    params.output_stream = &sink;
    params.progress_stream = &sink;
    const bool passed = rl::simulate<Test>(params);
    if (!passed) found = rl::test_result_str(params.test_result);
    return passed;
  };
  if (!run(rl::random_scheduler_type)) return false;
  return search.context_bound == 0 || run(rl::fair_context_bound_scheduler_type);
}

/// main() of a model: `--orders` lists what can be broken, `--break EDGE.half` breaks one. The exit status is
/// 0 when nothing was found and 1 when something was; the verdict goes to stdout. Other arguments are errors (2).
/// `--history` last: print how it happened.
inline int model_main(int argc, char** argv, const std::vector<std::string>& orders,
                      bool (*run_all)(std::string& verdict)) {
  if (argc > 1 && argv[argc - 1] == std::string_view("--history")) {
    show_history = true;
    --argc;
  }
  const std::string_view option = argc > 1 ? argv[1] : "";
  if (option == "--orders" && argc == 2) {
    for (const auto& order : orders) std::cout << order << '\n';
    return 0;
  }
  if (option == "--break" && argc == 3) {
    broken = argv[2];
    if (std::find(orders.begin(), orders.end(), broken) == orders.end()) {
      std::cout << "no order " << broken << " in this model\n";
      return 2;
    }
  } else if (argc != 1) {
    std::cout << "usage: " << argv[0] << " [--orders | --break EDGE.half] [--history]\n";
    return 2;
  }
  std::string verdict = "nothing found";
  const bool passed = run_all(verdict);
  std::cout << verdict << '\n';
  return passed ? 0 : 1;
}

}  // namespace slipring::models
