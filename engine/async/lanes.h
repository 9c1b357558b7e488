// Lanes: the asynchronous operations of one communicator, and who lets them advance.
//
// A lane is a queue of operations that run one after the other: all collectives share one, and each peer and direction
// of messages has its own. The operation at the head of a lane runs on the lane's fiber: the same code as the blocking call,
// which suspends where that would wait. Advancing resumes each lane that has something to do.
//
// progress = "caller": everything belongs to the communicator's thread. progress = "thread": the lanes belong to a thread
// that is started with the first operation; it sleeps while nothing is in flight. Failure: a wait that times out, or that
// finds a peer lost, ends with that Status inside the operations that wait, which say what they waited for. Only the time
// in which somebody waits counts; an operation that lies about has no deadline. A forked child is refused.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "base/counters.h"
#include "base/deadline.h"
#include "base/fiber.h"
#include "base/fork_generation.h"
#include "base/wait.h"
#include "slipring/status.h"

namespace slipring::engine {

class CommunicatorImpl;
class Lanes;

/// Which queue an operation stands in.
struct LaneKey {
  int peer = -1;          ///< -1: collectives
  bool receives = false;

  bool is_collective() const noexcept { return peer < 0; }
  auto operator<=>(const LaneKey&) const = default;
};

struct WorkState {
  std::function<Status(WorkState&)> body;
  LaneKey lane;
  std::shared_ptr<CommunicatorImpl> communicator;  ///< kept alive by what is in flight
  Lanes* lanes = nullptr;
  bool begun = false;
  bool moved = false;      ///< some of it has been exchanged with a peer: it cannot be taken back
  bool cancelled = false;
  Status result;
  std::atomic<bool> finished{false};  // WORK_FINISHED: result, buffers
};
using WorkPtr = std::shared_ptr<WorkState>;

class Lanes {
 public:
  /// `fail` poisons the communicator, for what cannot be undone.
  Lanes(base::Waiter& waiter, base::CounterBlock& counters, bool own_thread, std::function<Status(Status)> fail);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  /// Begins at once if its lane is free and the caller progresses; the others advance too. Without a thread that could
  /// progress it (unavailable) it has finished with that.
  WorkPtr start(LaneKey lane, std::function<Status(WorkState&)> body, std::shared_ptr<CommunicatorImpl> communicator);
  /// Whether anything is in flight. For the hot path of blocking calls.
  bool busy() const noexcept { return in_flight_.load(std::memory_order_acquire) != 0; }  // LANES_IDLE
  /// Whether test and wait may be called from any thread.
  bool has_own_thread() const noexcept { return own_thread_; }
  /// Neither fibers nor the thread are a forked child's to use, nor is anything below: it may ask about the finished only.
  bool in_forked_child() const noexcept { return generation_ != base::fork_generation(); }

  bool test(WorkState& operation);
  /// timeout only if `longest` passes; else ok, and the operation has finished.
  Status wait(WorkState& operation, const base::Deadline& longest);
  void cancel(const WorkPtr& operation);
  /// Finishes everything, one way or the other; ends the thread.
  void close() noexcept;

 private:
  struct Lane {
    std::deque<WorkPtr> queue;
    std::unique_ptr<base::Fiber> fiber;
    bool ending = false;
  };

  void enqueue(const WorkPtr& operation);
  void run(Lane& lane);
  bool advance(const Status& news = {});
  std::uint64_t steps() const noexcept;
  bool all_empty() const noexcept;
  bool awaits_elsewhere() const noexcept;
  template <class Enough>
  Status wait_for_progress(Enough&& enough, const base::Deadline& longest);
  base::Deadline patience() const;
  base::Deadline patience_of_waiters();
  void look_after_peers();
  bool serves();
  void finish(const WorkPtr& operation, Status result);
  void take_back(const WorkPtr& operation);
  void serve();
  void end_fibers() noexcept;

  base::Waiter& waiter_;
  base::CounterBlock& counters_;
  const bool own_thread_;
  const std::function<Status(Status)> fail_;
  const std::uint32_t generation_ = base::fork_generation();
  std::map<LaneKey, Lane> lanes_;      // of whoever progresses, as the next three
  std::uint64_t finished_count_ = 0;
  base::Clock::time_point next_look_;  // after the peers
  int unsettled_ = 0;                  // finished, but still in in_flight_: the thread has not left the waiter yet
  std::atomic<int> in_flight_{0};
  std::atomic<bool> asked_{false};     // something below waits for the thread

  std::mutex mutex_;                   // guards what follows; only with a thread of its own
  std::condition_variable changed_;
  std::deque<WorkPtr> submitted_;
  std::deque<WorkPtr> cancelled_;
  int waiting_ = 0;                    // threads in wait and close
  base::Clock::time_point waiting_since_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace slipring::engine
