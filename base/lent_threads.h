// LentThreads: a few threads that a rank lends to its large copies and reductions, since one core of a many-core host
// cannot move its share of the memory's bandwidth.
//
//   auto threads = LentThreads::start(3);
//   threads->share(bytes, [&](int part, std::size_t begin, std::size_t end) { std::memcpy(to + begin, from + begin, end - begin); });
//
// share() returns when all is done; the caller does a part itself. The threads run where the thread that started them may
// run, spin for some microseconds after their last part and then sleep without any cost. Any thread may call share; one
// that finds them at work for another does everything alone. A body must not throw.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace slipring::base {

class LentThreads {
 public:
  /// Null if `count` is below 1 or no thread could be created; fewer than asked if the system gives no more.
  static std::unique_ptr<LentThreads> start(int count);
  ~LentThreads();
  LentThreads(const LentThreads&) = delete;
  LentThreads& operator=(const LentThreads&) = delete;

  /// Into how many parts share() cuts at most: the threads and the caller.
  int parts() const noexcept { return static_cast<int>(threads_.size()) + 1; }

  /// Calls body(part, begin, end) for parts 0, 1, ... of [0, bytes) that begin at multiples of a cache line.
  template <class Body>
  void share(std::size_t bytes, Body&& body) {
    using Callable = std::remove_reference_t<Body>;
    run({bytes, [](void* b, int part, std::size_t begin, std::size_t end) { (*static_cast<Callable*>(b))(part, begin, end); },
         const_cast<void*>(static_cast<const void*>(&body))});
  }

 private:
  struct Task {
    std::size_t bytes = 0;
    void (*body)(void*, int part, std::size_t begin, std::size_t end) = nullptr;
    void* argument = nullptr;
  };
  LentThreads() = default;
  void run(const Task& task);
  void do_part(const Task& task, int part) const;
  void serve(int part);

  std::vector<std::thread> threads_;
  std::atomic_flag busy_;
  Task task_;                                 // of the generation under way
  alignas(64) std::atomic<std::uint64_t> generation_{0};  // LENT_POSTED: task_ before it
  alignas(64) std::atomic<int> unfinished_{0};            // LENT_DONE: what the part stored before it
  std::atomic<bool> stop_{false};
};

}  // namespace slipring::base
