// gather: every rank's value on rank 0, by rank; empty on the others. By messages, so that a collective under
// test cannot hide what it did wrong. Throws slipring::Error.
#pragma once

#include <type_traits>
#include <vector>

#include "slipring/communicator.h"

namespace slipring::tools::perf {

template <class T>
std::vector<T> gather(Communicator& comm, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (comm.rank() != 0) {
    comm.send(&mine, sizeof mine, 0);
    return {};
  }
  std::vector<T> all{mine};
  for (int rank = 1; rank < comm.size(); ++rank) {
    T theirs;
    comm.recv(&theirs, sizeof theirs, rank);
    all.push_back(theirs);
  }
  return all;
}

}  // namespace slipring::tools::perf
