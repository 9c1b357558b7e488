// Data path of shared copies. Budget per share: one line told to the threads and one told back by each; no system call
// unless they sleep.
#include "base/lent_threads.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#include "base/wait.h"

namespace slipring::base {
namespace {

constexpr std::size_t kLine = 64;
// How long a thread waits for the next part before it sleeps: longer than what lies between two chunks.
constexpr std::chrono::microseconds kSpin{50};
constexpr int kLooksPerClock = 64;

}  // namespace

std::unique_ptr<LentThreads> LentThreads::start(int count) {
  if (count < 1) return nullptr;
  std::unique_ptr<LentThreads> lent(new LentThreads);
  lent->threads_.reserve(static_cast<std::size_t>(count));
  try {
    for (int part = 1; part <= count; ++part) lent->threads_.emplace_back([raw = lent.get(), part] { raw->serve(part); });
  } catch (const std::system_error&) {
    if (lent->threads_.empty()) return nullptr;
  }
  return lent;
}

LentThreads::~LentThreads() {
  stop_.store(true, std::memory_order_relaxed);  // relaxed: ordered by the release below
  generation_.fetch_add(1, std::memory_order_release);  // LENT_POSTED: stop_
  generation_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void LentThreads::do_part(const Task& task, int part) const {
  const auto parts = static_cast<std::size_t>(threads_.size() + 1);
  const std::size_t each = ((task.bytes + parts - 1) / parts + kLine - 1) / kLine * kLine;
  const std::size_t begin = std::min(task.bytes, each * static_cast<std::size_t>(part));
  const std::size_t end = std::min(task.bytes, begin + each);
  if (begin != end) task.body(task.argument, part, begin, end);
}

void LentThreads::run(const Task& task) {
  if (busy_.test_and_set(std::memory_order_acquire)) {  // the last caller's use of task_ is over
    task.body(task.argument, 0, 0, task.bytes);
    return;
  }
  task_ = task;
  unfinished_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);  // relaxed: ordered by the release below
  generation_.fetch_add(1, std::memory_order_release);  // LENT_POSTED: task_ and unfinished_
  generation_.notify_all();                             // a look at a counter unless one of them sleeps
  do_part(task, 0);
  for (int looks = 1; unfinished_.load(std::memory_order_acquire) != 0; ++looks) {  // LENT_DONE
    if (looks % 1024 == 0)
      std::this_thread::yield();  // a thread that has lost its CPU gets this one
    else
      cpu_relax();
  }
  busy_.clear(std::memory_order_release);  // done with task_
}

void LentThreads::serve(int part) {
  std::uint64_t seen = 0;
  for (;;) {
    const auto give_up = std::chrono::steady_clock::now() + kSpin;
    for (int looks = 1; generation_.load(std::memory_order_relaxed) == seen; ++looks) {  // relaxed: read again below
      cpu_relax();
      if (looks % kLooksPerClock == 0 && std::chrono::steady_clock::now() > give_up) generation_.wait(seen, std::memory_order_relaxed);
    }
    // Nothing is posted before all have finished the last task, so that no generation is missed.
    seen = generation_.load(std::memory_order_acquire);  // LENT_POSTED
    if (stop_.load(std::memory_order_relaxed)) return;   // relaxed: seen with the generation
    do_part(task_, part);
    unfinished_.fetch_add(-1, std::memory_order_release);  // LENT_DONE
  }
}

}  // namespace slipring::base
