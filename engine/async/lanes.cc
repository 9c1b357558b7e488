#include "engine/async/lanes.h"

#include <algorithm>
#include <cassert>
#include <exception>
#include <utility>

#include "base/status.h"

namespace slipring::engine {
namespace {

// How long whoever progresses may sleep when some lane awaits what rings another doorbell than its own.
constexpr std::chrono::microseconds kLookElsewhere{200};
// A waiting thread looks that long before it sleeps.
constexpr std::chrono::microseconds kLook{20};

}  // namespace

Lanes::Lanes(base::Waiter& waiter, bool own_thread, std::function<Status(Status)> fail)
    : waiter_(waiter), own_thread_(own_thread), fail_(std::move(fail)) {}

Lanes::~Lanes() { close(); }

Lanes::Lane& Lanes::lane_of(LaneKey key) {
  Lane& lane = lanes_[key];
  if (!lane.fiber) lane.fiber = std::make_unique<base::Fiber>([this, &lane] { run(lane); });
  return lane;
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

/// On the stack of whoever progresses: until enough() or `longest` (timeout). What the waiter reports goes to the lanes,
/// whose operations say what they waited for.
template <class Enough>
Status Lanes::wait_for_progress(Enough&& enough, const base::Deadline& longest) {
  using std::chrono::nanoseconds;
  const nanoseconds timeout(waiter_.windows().timeout_ns);
  const auto patience = [&] { return timeout.count() < 0 ? base::Deadline::never() : base::Deadline::after(timeout); };
  base::Deadline limit = patience();
  while (!enough()) {
    const nanoseconds left = std::min(limit.left(), longest.left());
    const base::Deadline deadline = base::Deadline::after(awaits_elsewhere() ? std::min<nanoseconds>(left, kLookElsewhere) : left);
    bool moved = false;
    Status s = waiter_.wait([&] { return (moved = advance()) || enough(); }, &deadline);
    if (moved) limit = patience();
    if (s.is_ok()) continue;
    if (s.code() == StatusCode::timeout) {
      if (longest.passed()) return s;
      if (!limit.passed()) continue;
    }
    advance(s);
  }
  return {};
}

WorkPtr Lanes::start(LaneKey key, std::function<Status(WorkState&)> body, std::shared_ptr<void> keeps) {
  auto operation = std::make_shared<WorkState>();
  operation->body = std::move(body);
  operation->lane = key;
  operation->keeps = std::move(keeps);
  operation->lanes = this;
  in_flight_.fetch_add(1, std::memory_order_relaxed);  // relaxed: the starter sees its own; the thread counts down
  if (!own_thread_) {
    Lane& lane = lane_of(key);
    lane.queue.push_back(operation);
    if (lane.queue.size() == 1) lane.fiber->resume();
    return operation;
  }
  const std::lock_guard lock(mutex_);
  submitted_.push_back(operation);
  if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
  asked_.store(true, std::memory_order_relaxed);  // relaxed: a hint; the mutex orders what it is about
  changed_.notify_all();
  waiter_.doorbell().wake();
  return operation;
}

bool Lanes::test(WorkState& operation) {
  const auto finished = [&] { return operation.finished.load(std::memory_order_acquire); };  // WORK_FINISHED
  if (!finished() && !own_thread_) advance();
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
  while (!finished()) {  // the thread bounds every operation
    if (longest.passed()) return Status(StatusCode::timeout, "the operation goes on");
    changed_.wait_for(lock, std::min<std::chrono::nanoseconds>(longest.left(), std::chrono::seconds(1)));
  }
  return {};
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
  Lane& lane = lane_of(operation->lane);
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
    for (; !submitted_.empty(); submitted_.pop_front()) lane_of(submitted_.front()->lane).queue.push_back(submitted_.front());
    const std::deque<WorkPtr> cancelled = std::exchange(cancelled_, {});
    if (cancelled.empty() && all_empty()) {
      if (ending_) break;
      changed_.wait(lock, [&] { return !submitted_.empty() || !cancelled_.empty() || ending_; });
      continue;
    }
    lock.unlock();
    for (const WorkPtr& operation : cancelled) take_back(operation);
    (void)wait_for_progress([&] { return all_empty() || asked_.load(std::memory_order_relaxed); }, base::Deadline::never());
    in_flight_.fetch_add(-std::exchange(unsettled_, 0), std::memory_order_release);  // LANES_IDLE: the waiter and all else
    lock.lock();
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
      changed_.notify_all();
    }
    thread_.join();
    return;
  }
  (void)wait_for_progress([&] { return all_empty(); }, base::Deadline::never());
  end_fibers();
}

}  // namespace slipring::engine
