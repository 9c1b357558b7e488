// An outside user's program: two threads of one process, or with --join the ranks of a job, add up their
// ranks.
#include <slipring/communicator.h>

#include <cstdio>
#include <cstring>
#include <span>
#include <vector>

static void add_up(slipring::Communicator& comm) {
  std::vector<float> x(1000, static_cast<float>(comm.rank() + 1));
  comm.all_reduce(std::span(x), slipring::ReduceOp::sum);
  const float expected = static_cast<float>(comm.size() * (comm.size() + 1) / 2);
  for (const float value : x) {
    if (value != expected)
      throw slipring::Error(slipring::Status(slipring::StatusCode::corrupt, "wrong sum"));
  }
}

int main(int argc, char** argv) {
  try {
    if (argc > 1 && std::strcmp(argv[1], "--join") == 0) {
      slipring::Communicator comm = slipring::Communicator::join();
      add_up(comm);
    } else {
      slipring::run_threads(2, add_up);
    }
  } catch (const slipring::Error& error) {  // across the library's border
    std::fprintf(stderr, "outside: %s\n", error.what());
    return 1;
  }
  return 0;
}
