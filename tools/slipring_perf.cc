// slipring-perf: measures one operation over a range of sizes and checks every element. docs/slipring-perf.md
#include <fmt/format.h>

#include <cstdlib>
#include <exception>

#include "engine/spawn.h"
#include "tools/perf/bench.h"

namespace slipring::tools::perf {
namespace {

constexpr int kFailed = 1;
constexpr int kBadUsage = 2;

JobOptions job_options(const Options& options) {
  JobOptions job;
  if (options.algorithm != "auto")
    job.config[std::string(options.operation->algorithm_key)] = options.algorithm;
  return job;
}

void say(std::string_view sentence) {
  fmt::print(stderr, "slipring-perf: {}\n", sentence);
}

int run_processes(const Options& options, int argc, char** argv) {
  if (const char* rank = std::getenv("SLIPRING_RANK")) {
    say(fmt::format("this is rank {} of a job already; leave out --procs", rank));
    return kBadUsage;
  }
  engine::RunOptions run;
  run.size = options.procs;
  run.program = "/proc/self/exe";
  run.arguments = rank_arguments(argc, argv);
  run.report = say;
  const Result<int> status = engine::run_ranks(run);
  if (status) return status.value();
  say(status.status().to_string());
  return kFailed;
}

int run_ranks_of_this_process(const Options& options, const ResidentMemory& before_join) {
  if (Status limited = limit_to_listed_cpus(options.pin); !limited) throw Error(std::move(limited));
  if (options.threads == 0) {
    Communicator comm = Communicator::join(job_options(options));
    return run_bench(comm, options, before_join);
  }
  int status = 0;  // written by rank 0 alone
  run_threads(
      options.threads,
      [&](Communicator& comm) {
        const int mine = run_bench(comm, options, before_join);
        if (comm.rank() == 0) status = mine;
      },
      job_options(options));
  return status;
}

int run(int argc, char** argv) {
  const auto parsed = parse_options(argc, argv);
  if (const auto* exit = std::get_if<EarlyExit>(&parsed)) return exit->status;
  const Options& options = std::get<Options>(parsed);
  if (options.procs > 0) return run_processes(options, argc, argv);
  const ResidentMemory before_join = resident_memory();
  try {
    return run_ranks_of_this_process(options, before_join);
  } catch (const Error& error) {
    const bool nowhere = options.threads == 0 && !std::getenv("SLIPRING_RANK");
    say(error.what() +
        std::string(nowhere ? "; give --procs N or --threads N, or start it with slipring-run" : ""));
  } catch (const std::exception& error) {
    say(error.what());
  }
  return kFailed;
}

}  // namespace
}  // namespace slipring::tools::perf

int main(int argc, char** argv) {
  return slipring::tools::perf::run(argc, argv);
}
