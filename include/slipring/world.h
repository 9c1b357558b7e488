// The communicator of a process that takes part in one job, and invitations by which ranks find each other.
//
//   slipring::init();                       // as often as one likes: the first call joins
//   slipring::world().all_reduce(...);
//   slipring::finalize();                   // idempotent; nothing does it at exit
//
// Or without a launcher and without an environment, by means of the caller's own (a file, a socket, MPI):
//
//   std::string id = slipring::create_unique_id();              // on one process
//   auto comm = slipring::Communicator::join({.rank = r, .size = n, .store = id});   // on all, with that text
//
// All functions here may be called from any thread.
#ifndef SLIPRING_WORLD_H
#define SLIPRING_WORLD_H

#include <string>

#include "slipring/communicator.h"

namespace slipring {

/// Joins, once per process. The same options again are no operation; others are Error(invalid_argument) that shows both.
/// After finalize() a process may join another job.
SLIPRING_API Communicator& init(const JobOptions& options = {});
/// The communicator that init() made; Error(unavailable) before.
SLIPRING_API Communicator& world();
/// Flushes what was sent and lets go. No operation if there is nothing.
SLIPRING_API void finalize() noexcept;

/// A text of at most kUniqueIdBytes printable characters that names a meeting in this process, good for one group of
/// ranks. It contains a secret: who has it can join. `host` is this machine's numeric address that the other ranks
/// reach; the default serves ranks on this machine only. The process must live until all ranks have joined.
SLIPRING_API std::string create_unique_id(const std::string& host = "127.0.0.1");
inline constexpr std::size_t kUniqueIdBytes = 255;

}  // namespace slipring

#endif
