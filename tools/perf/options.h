// Options of slipring-perf, as parsed and checked from its command line. A value; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "slipring/types.h"
#include "tools/perf/operation.h"
#include "tools/perf/placement.h"

namespace slipring::tools::perf {

struct Options {
  const OperationInfo* operation = nullptr;
  int procs = 0;    ///< > 0: start that many processes
  int threads = 0;  ///< > 0: run that many threads; both 0: join the job of the environment
  std::size_t min_bytes = 4;
  std::size_t max_bytes = std::size_t{64} << 20;
  std::size_t factor = 4;
  std::int64_t iters = 0;  ///< timed samples per size; 0: by time
  std::int64_t warmup = 5;
  DType dtype = DType::f32;
  ReduceOp redop = ReduceOp::sum;
  int root = 0;
  std::string algorithm = "auto";
  bool check = true;
  bool out_of_place = false;  ///< all_reduce
  bool in_place = false;      ///< stream: the consumer works in the slots
  bool heap = false;          ///< user buffers in the heap
  std::string json;           ///< file, "-" for standard output, "" for none
  std::string csv;
  int inflight = 0;  ///< asynchronous operations kept in flight; 0: blocking calls
  int groups = 1;  ///< the ranks are split into that many, which run at the same time
  PinRequest pin;

  bool rows_to_stdout() const { return json == "-" || csv == "-"; }
};

/// The exit status with which the program ends when the command line asks for help or is wrong.
struct EarlyExit {
  int status;
};

/// Prints help or the reason when there is nothing to run.
std::variant<Options, EarlyExit> parse_options(int argc, const char* const* argv);

/// The command line of one process of `--procs N`: the same without that option and the program's name.
std::vector<std::string> rank_arguments(int argc, const char* const* argv);

}  // namespace slipring::tools::perf
