// Ranks as threads of one process: the same start-up, over a store in memory.
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "engine/communicator_impl.h"
#include "engine/raise.h"
#include "slipring/communicator.h"

namespace slipring {

void run_threads(int size, const std::function<void(Communicator&)>& body, const JobOptions& options) {
  if (size < 1) throw Error(base::error(StatusCode::invalid_argument, "run_threads: size {}, at least 1 is needed", size));
  const base::Config config = engine::value_or_raise(base::Config::load(options.config));
  engine::raise_unless_ok(base::configure_log(config));
  const std::shared_ptr<engine::Store> store = engine::make_memory_store();
  const base::Deadline deadline = base::Deadline::after_ms(config.values().startup_timeout_ms);

  std::mutex mutex;
  std::exception_ptr first;  // guarded by mutex
  const auto run_rank = [&](int rank) {
    Communicator communicator;
    try {
      base::set_log_rank_of_thread(rank);
      communicator.impl_ = engine::value_or_raise(engine::CommunicatorImpl::join_at(*store, rank, size, config, deadline));
      body(communicator);
    } catch (...) {
      {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
      // Whoever waits for this rank must not wait in vain; an Error of the group's own changes nothing here.
      try {
        throw;
      } catch (const std::exception& e) {
        communicator.abort(e.what());
      } catch (...) {
        communicator.abort("the rank's body threw something that is no std::exception");
      }
    }
  };

  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(size));
  Status not_started;
  try {
    for (int rank = 0; rank < size; ++rank) threads.emplace_back(run_rank, rank);
  } catch (const std::system_error& e) {
    not_started = base::error(StatusCode::unavailable, "thread of rank {} could not be created ({}); raise the limits on memory "
                              "and threads or start fewer ranks; those that had started waited for it in vain", threads.size(), e.what());
  }
  for (std::thread& t : threads) t.join();
  engine::raise_unless_ok(std::move(not_started));
  if (first) std::rethrow_exception(first);
}

}  // namespace slipring
