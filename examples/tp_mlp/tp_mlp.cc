// A tensor-parallel MLP on real files: every rank computes its part, all_reduce adds the parts.
//
//   slipring-run -n 2 tp_mlp --input DIR --output y.npy
#include <slipring/communicator.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <numeric>
#include <string>
#include <vector>

#include "mlp.h"

namespace {

struct Arguments {
  std::string input;
  std::string output;
  int passes = 5;
};

void report(const slipring::Communicator& comm, const tp_mlp::Mlp& mlp,
            const std::vector<tp_mlp::PassTimes>& passes) {
  std::vector<double> calls;
  double total_us = 0, wait_us = 0;
  for (const tp_mlp::PassTimes& pass : passes) {
    calls.insert(calls.end(), pass.all_reduce_us.begin(), pass.all_reduce_us.end());
    total_us += pass.total_us;
    wait_us += pass.wait_us;
  }
  std::sort(calls.begin(), calls.end());
  const double all_reduce_us = std::accumulate(calls.begin(), calls.end(), 0.0);
  const std::size_t bytes = mlp.output().size_bytes();
  const slipring::Selection selection = comm.explain("all_reduce", bytes);
  std::printf(
      "tp_mlp: ranks %d, blocks %zu, tokens %zu, hidden units %zu, outputs %zu, passes %zu of %.1f ms each\n",
      comm.size(), mlp.blocks(), mlp.tokens(), mlp.hidden_units(), mlp.output_width(), passes.size(),
      total_us / 1e3 / static_cast<double>(passes.size()));
  std::printf(
      "tp_mlp: all_reduce of %zu bytes (%s, %s): calls %zu, median %.1f us, total %.2f ms, %.2f %% of the "
      "time;"
      " waiting for the slowest rank %.2f %%\n",
      bytes, selection.algorithm.c_str(), selection.transport.c_str(), calls.size(), calls[calls.size() / 2],
      all_reduce_us / 1e3, 100 * all_reduce_us / total_us, 100 * wait_us / total_us);
}

void run(const Arguments& arguments) {
  slipring::Communicator comm = slipring::Communicator::join();
  try {
    tp_mlp::Mlp mlp(comm, arguments.input);
    mlp.forward();  // touches all memory for the first time
    std::vector<tp_mlp::PassTimes> passes;
    for (int i = 0; i < arguments.passes; ++i) passes.push_back(mlp.forward());
    if (comm.rank() == 0) {
      tp_mlp::write_npy(arguments.output, mlp.tokens(), mlp.output_width(), mlp.output());
      report(comm, mlp, passes);
    }
    comm.barrier();  // a rank must not leave with success when rank 0 could not write
  } catch (const slipring::Error&) {
    throw;
  } catch (const std::exception& error) {
    comm.abort(error.what());  // the other ranks learn the cause at once, not by a timeout
    throw;
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Runs a tensor-parallel MLP from .npy files on the ranks of a job.", "tp_mlp");
  Arguments arguments;
  app.add_option("--input", arguments.input,
                 "folder with activations.npy, block_00_up.npy, block_00_down.npy, ...")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--output", arguments.output, ".npy file that rank 0 writes the result to")->required();
  app.add_option("--passes", arguments.passes, "timed forward passes")->check(CLI::Range(1, 1000000));
  CLI11_PARSE(app, argc, argv);
  try {
    run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tp_mlp: %s\n", error.what());
    return 1;
  }
  return 0;
}
