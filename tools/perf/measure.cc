#include "tools/perf/measure.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <vector>

#include "tools/perf/gather.h"

namespace slipring::tools::perf {
namespace {

using Clock = std::chrono::steady_clock;

// Reading the clock may cost this share of a sample.
constexpr double kClockShare = 0.01;
// Without --iters: how long the samples of one size take together, and how many they are at least and at
// most.
constexpr double kSizeNs = 200e6;
constexpr double kMinSamples = 20;
constexpr double kMaxSamples = 20000;
// Second warm-up, whose time tells how to sample: long enough that the first operations' cold caches do not
// count.
constexpr double kTrialNs = 300e3;
constexpr double kMaxTrialRuns = 2000;

double ns_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

double clock_read_ns() {
  constexpr int kReads = 1000;
  const auto start = Clock::now();
  for (int i = 0; i < kReads; ++i) (void)Clock::now();
  return ns_since(start) / kReads;
}

/// Rank 0's figures, on every rank: all ranks must run equally often.
template <std::size_t N>
std::array<std::int64_t, N> agreed(Communicator& comm, std::array<std::int64_t, N> figures) {
  comm.broadcast(figures.data(), N, DType::i64, 0);
  return figures;
}

double timed_ns(Operation& operation, std::int64_t runs) {
  const auto start = Clock::now();
  operation.run(runs);
  return std::max(1.0, ns_since(start) / static_cast<double>(runs));
}

struct Sampling {
  std::int64_t samples = 1;
  std::int64_t batch = 1;
};

/// Warms up, and chooses how to sample from how long that took.
Sampling warm_up(Communicator& comm, Operation& operation, const Options& options) {
  const double first_ns = timed_ns(operation, std::max<std::int64_t>(1, options.warmup));
  const auto [trial_runs] =
      agreed<1>(comm, {static_cast<std::int64_t>(std::clamp(kTrialNs / first_ns, 1.0, kMaxTrialRuns))});
  const double run_ns = timed_ns(operation, trial_runs);
  const double batch = std::max(1.0, std::ceil(clock_read_ns() / kClockShare / run_ns));
  const double samples = std::clamp(kSizeNs / (batch * run_ns), kMinSamples, kMaxSamples);
  const auto [agreed_samples, agreed_batch] =
      agreed<2>(comm, {options.iters > 0 ? options.iters : static_cast<std::int64_t>(samples),
                       static_cast<std::int64_t>(batch)});
  return {agreed_samples, agreed_batch};
}

std::vector<double> sampled_us(Operation& operation, const Sampling& sampling, int operations_per_run) {
  // One clock read per sample: the end of one is the start of the next.
  std::vector<Clock::time_point> at(static_cast<std::size_t>(sampling.samples) + 1);
  at[0] = Clock::now();
  for (std::size_t i = 1; i < at.size(); ++i) {
    operation.run(sampling.batch);
    at[i] = Clock::now();
  }
  std::vector<double> us(at.size() - 1);
  const double operations = static_cast<double>(sampling.batch) * operations_per_run;
  for (std::size_t i = 0; i < us.size(); ++i) {
    us[i] = std::chrono::duration<double, std::micro>(at[i + 1] - at[i]).count() / operations;
  }
  return us;
}

/// Runs once on known data.
std::uint64_t wrong_in_one_run(Communicator& comm, Operation& operation, std::size_t count) {
  operation.set_up(count, Data::checked);
  comm.barrier();
  operation.run(1);
  return operation.wrong();
}

}  // namespace

Measurement measure(Communicator& comm, Operation& operation, const Options& options, std::size_t count) {
  Measurement result;
  if (options.check) result.wrong += wrong_in_one_run(comm, operation, count);

  operation.set_up(count, Data::timed);
  comm.barrier();
  const Sampling sampling = warm_up(comm, operation, options);
  comm.barrier();
  result.time_us = statistics_of(sampled_us(operation, sampling, options.operation->operations_per_run));

  // Once more afterwards: the many operations in between must not have left anything behind.
  if (options.check) result.wrong += operation.wrong() + wrong_in_one_run(comm, operation, count);

  const auto all = gather(comm, result.time_us);
  for (const Statistics& other : all)
    for (const auto figure : {&Statistics::median, &Statistics::min, &Statistics::p90, &Statistics::p99, &Statistics::p999, &Statistics::max})
      result.time_us.*figure = std::max(result.time_us.*figure, other.*figure);
  const auto wrongs = gather(comm, result.wrong);
  result.wrong = 0;
  for (const std::uint64_t wrong : wrongs) result.wrong += wrong;
  result.samples = sampling.samples;
  result.batch = sampling.batch;
  return result;
}

}  // namespace slipring::tools::perf
