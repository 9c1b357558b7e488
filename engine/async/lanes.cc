#include "engine/async/lanes.h"

#include <algorithm>
#include <cassert>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "base/status.h"

namespace slipring::engine {
namespace {

// How long whoever progresses may sleep when some lane awaits what rings another doorbell than its own.
constexpr std::chrono::microseconds kLookElsewhere{200};
// A waiting thread looks that long before it sleeps.
constexpr std::chrono::microseconds kLook{20};

}  // namespace

Lanes::Lanes(base::Waiter& waiter, base::CounterBlock& counters, bool own_thread, std::function<Status(Status)> fail)
    : waiter_(waiter), counters_(counters), own_thread_(own_thread), fail_(std::move(fail)) {}

Lanes::~Lanes() { close(); }

/// Puts it on its lane, which is made if need be.
void Lanes::enqueue(const WorkPtr& operation) {
  Lane& lane = lanes_[operation->lane];
  try {
    if (!lane.fiber) lane.fiber = std::make_unique<base::Fiber>([this, &lane] { run(lane); });
  } catch (const std::bad_alloc&) {
    lanes_.erase(operation->lane);
    finish(operation, base::error(StatusCode::out_of_memory, "no stack could be mapped for an asynchronous operation; raise the limits "
                                  "on memory and on mappings (vm.max_map_count)"));
    return;
  }
  lane.queue.push_back(operation);
}

// Body of a lane's fiber.
void Lanes::run(Lane& lane) {
  while (!lane.ending) {
    while (!lane.queue.empty()) {
      const WorkPtr operation = lane.queue.front();
      operation->begun = true;
      Status result;
      try {
        result = operation->body(*operation);
      } catch (const std::exception& e) {
        result = Status(StatusCode::system_error, e.what());
      }
      lane.queue.pop_front();
      finish(operation, std::move(result));
    }
    base::Fiber::current()->awaits = nullptr;
    (void)base::Fiber::current()->suspend();
  }
}

void Lanes::finish(const WorkPtr& operation, Status result) {
  operation->body = nullptr;  // and what it holds
  operation->result = std::move(result);
  ++finished_count_;
  counters_.async_finished.add(1);
  if (own_thread_) {
    ++unsettled_;
    const std::lock_guard lock(mutex_);
    operation->finished.store(true, std::memory_order_release);  // WORK_FINISHED: result, buffers
    changed_.notify_all();
  } else {
    operation->finished.store(true, std::memory_order_release);  // WORK_FINISHED: result, buffers
    in_flight_.fetch_add(-1, std::memory_order_release);         // LANES_IDLE
  }
}

/// Resumes every lane that has something to do; returns whether anything has moved.
bool Lanes::advance(const Status& news) {
  const std::uint64_t before = steps();
  for (auto& [key, lane] : lanes_)
    if (!lane.queue.empty()) lane.fiber->resume(Status(news));
  return steps() != before;
}

std::uint64_t Lanes::steps() const noexcept {
  std::uint64_t steps = finished_count_;
  for (const auto& [key, lane] : lanes_) steps += lane.fiber->waits_over;
  return steps;
}

bool Lanes::all_empty() const noexcept {
  return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& entry) { return entry.second.queue.empty(); });
}

bool Lanes::awaits_elsewhere() const noexcept {
  return std::any_of(lanes_.begin(), lanes_.end(), [&](const auto& entry) {
    return !entry.second.queue.empty() && entry.second.fiber->awaits != &waiter_.doorbell();
  });
}

base::Deadline Lanes::patience() const {
  const std::chrono::nanoseconds timeout(waiter_.windows().timeout_ns);
  return timeout.count() < 0 ? base::Deadline::never() : base::Deadline::after(timeout);
}

/// The thread waits even when nobody else does; patience is that of the others. Begins anew while there is none.
base::Deadline Lanes::patience_of_waiters() {
  if (!own_thread_ || waiter_.windows().timeout_ns < 0) return patience();
  const std::lock_guard lock(mutex_);
  if (waiting_ == 0) return patience();
  return base::Deadline::after(waiting_since_ + std::chrono::nanoseconds(waiter_.windows().timeout_ns) - base::Clock::now());
}

/// Short waits and polls end before the liveness period that a Waiter counts does.
void Lanes::look_after_peers() {
  const auto now = base::Clock::now();
  if (now < next_look_) return;
  next_look_ = now + std::chrono::nanoseconds(waiter_.windows().liveness_ns);
  if (Status s = waiter_.watch().check_peers(); !s) advance(s);
}

/// On the stack of whoever progresses: until enough() or `longest` (timeout). What the waiter reports goes to the lanes,
/// whose operations say what they waited for.
template <class Enough>
Status Lanes::wait_for_progress(Enough&& enough, const base::Deadline& longest) {
  using std::chrono::nanoseconds;
  base::Deadline limit = patience();
  while (!enough()) {
    const nanoseconds left = std::min(limit.left(), longest.left());
    const base::Deadline deadline = base::Deadline::after(awaits_elsewhere() ? std::min<nanoseconds>(left, kLookElsewhere) : left);
    bool moved = false;
    Status s = waiter_.wait([&] { return (moved = advance()) || enough(); }, &deadline);
    if (moved) limit = patience();
    if (s.is_ok()) continue;
    if (s.code() == StatusCode::timeout) {
      if (longest.passed()) {
        look_after_peers();
        return s;
      }
      if (!limit.passed()) continue;
      if (own_thread_) {
        limit = patience_of_waiters();
        if (!limit.passed()) continue;
      }
    }
    advance(s);
  }
  return {};
}

/// Starts the thread with the first operation. With mutex_ held.
bool Lanes::serves() {
  if (thread_.joinable()) return true;
  try {
    thread_ = std::thread([this] { serve(); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

WorkPtr Lanes::start(LaneKey key, std::function<Status(WorkState&)> body, std::shared_ptr<CommunicatorImpl> communicator) {
  auto operation = std::make_shared<WorkState>();
  operation->body = std::move(body);
  operation->lane = key;
  operation->communicator = std::move(communicator);
  operation->lanes = this;
  if (!own_thread_) {
    counters_.async_started.add(1);
    in_flight_.fetch_add(1, std::memory_order_relaxed);  // relaxed: the only thread
    enqueue(operation);
    advance();
    return operation;
  }
  const std::lock_guard lock(mutex_);
  if (!serves()) {
    operation->result = base::error(StatusCode::unavailable, "the thread of progress \"thread\" could not be created; raise the limit "
                                    "on threads, or set progress to \"caller\"");
    operation->finished.store(true, std::memory_order_relaxed);  // relaxed: no other thread has seen it
    return operation;
  }
  counters_.async_started.add(1);
  in_flight_.fetch_add(1, std::memory_order_relaxed);  // relaxed: the starter sees its own; the thread counts down
  submitted_.push_back(operation);
  asked_.store(true, std::memory_order_relaxed);  // relaxed: a hint; the mutex orders what it is about
  changed_.notify_all();
  waiter_.doorbell().wake();
  return operation;
}

bool Lanes::test(WorkState& operation) {
  const auto finished = [&] { return operation.finished.load(std::memory_order_acquire); };  // WORK_FINISHED
  if (finished() || own_thread_) return finished();
  if (!advance()) look_after_peers();
  return finished();
}

Status Lanes::wait(WorkState& operation, const base::Deadline& longest) {
  const auto finished = [&] { return operation.finished.load(std::memory_order_acquire); };  // WORK_FINISHED
  if (finished()) return {};
  if (!own_thread_) return wait_for_progress(finished, longest);
  for (const base::Deadline look = base::Deadline::after(kLook); !look.passed();) {
    for (int i = 0; i < 32; ++i) {
      if (finished()) return {};
      base::cpu_relax();
    }
  }
  std::unique_lock lock(mutex_);
  if (waiting_++ == 0) waiting_since_ = base::Clock::now();
  while (!finished() && !longest.passed())  // the thread bounds every operation for which somebody waits
    changed_.wait_for(lock, std::min<std::chrono::nanoseconds>(longest.left(), std::chrono::seconds(1)));
  --waiting_;
  return finished() ? Status() : Status(StatusCode::timeout, "the operation goes on");
}

void Lanes::cancel(const WorkPtr& operation) {
  if (operation->finished.load(std::memory_order_acquire)) return;  // WORK_FINISHED
  if (!own_thread_) return take_back(operation);
  const std::lock_guard lock(mutex_);
  cancelled_.push_back(operation);
  asked_.store(true, std::memory_order_relaxed);  // relaxed: as in start
  changed_.notify_all();
  waiter_.doorbell().wake();
}

void Lanes::take_back(const WorkPtr& operation) {
  if (operation->finished.load(std::memory_order_relaxed)) return;  // relaxed: who progresses has finished it itself
  Lane& lane = lanes_.at(operation->lane);
  const bool message = !operation->lane.is_collective();
  if (message && !operation->begun) {
    std::erase(lane.queue, operation);
    finish(operation, base::error(StatusCode::aborted, "cancelled before it began"));
  } else if (message && !operation->moved) {
    operation->cancelled = true;
    lane.fiber->resume(base::error(StatusCode::aborted, "cancelled before anything was exchanged"));
  } else {
    (void)fail_(base::error(StatusCode::aborted, "an operation under way was cancelled, which the other ranks cannot undo"));
    advance();
  }
}

// The thread of progress = "thread".
void Lanes::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    asked_.store(false, std::memory_order_relaxed);  // relaxed: as in start
    const std::deque<WorkPtr> submitted = std::exchange(submitted_, {}), cancelled = std::exchange(cancelled_, {});
    lock.unlock();
    for (const WorkPtr& operation : submitted) enqueue(operation);
    for (const WorkPtr& operation : cancelled) take_back(operation);
    if (!all_empty()) {
      (void)wait_for_progress([&] { return all_empty() || asked_.load(std::memory_order_relaxed); }, base::Deadline::never());
      if (!all_empty()) look_after_peers();
    }
    in_flight_.fetch_add(-std::exchange(unsettled_, 0), std::memory_order_release);  // LANES_IDLE: the waiter and all else
    lock.lock();
    if (!all_empty()) continue;
    changed_.wait(lock, [&] { return !submitted_.empty() || !cancelled_.empty() || ending_; });
    if (submitted_.empty() && cancelled_.empty()) break;
  }
  lock.unlock();
  end_fibers();
}

void Lanes::end_fibers() noexcept {
  for (auto& [key, lane] : lanes_) {
    lane.ending = true;
    lane.fiber->resume();
    assert(lane.fiber->finished());
  }
  lanes_.clear();
}

void Lanes::close() noexcept {
  if (own_thread_) {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      if (waiting_++ == 0) waiting_since_ = base::Clock::now();
      changed_.notify_all();
    }
    thread_.join();
    return;
  }
  (void)wait_for_progress([&] { return all_empty(); }, base::Deadline::never());
  end_fibers();
}

}  // namespace slipring::engine
