// The scheme that serving stacks carry today, written straight: each rank copies its input into a buffer that all have
// mapped, counts itself, waits for all others, and adds up all buffers. Two buffers in turn, so that nobody has to wait a
// second time. Float sum, any number of ranks, no checks. What Slipring's decode figures are shown beside.
#pragma once

#include <immintrin.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace copy_wait {

inline constexpr std::size_t kBytes = std::size_t{1} << 20;  // of one buffer; larger inputs go piece by piece
inline constexpr int kRanks = 16;
inline constexpr int kSpins = 100;  // then it yields: ranks may share cores

struct alignas(4096) Side {
  alignas(64) std::atomic<std::uint64_t> arrived;
  alignas(4096) std::byte buffer[2][kBytes];
};
struct Shared {
  Side side[kRanks];
};

class Group {
 public:
  Group(Shared& shared, int rank, int ranks) : shared_(shared), rank_(rank), ranks_(ranks) {}

  void all_reduce(float* data, std::size_t count) {
    constexpr std::size_t kPiece = kBytes / sizeof(float);
    for (std::size_t at = 0; at < count; at += kPiece) piece(data + at, std::min(kPiece, count - at));
  }

 private:
  void piece(float* data, std::size_t count) {
    const unsigned parity = ++operation_ & 1;
    std::memcpy(shared_.side[rank_].buffer[parity], data, count * sizeof(float));
    shared_.side[rank_].arrived.store(operation_, std::memory_order_release);
    for (int r = 0; r < ranks_; ++r)
      for (int spins = 0; shared_.side[r].arrived.load(std::memory_order_acquire) < operation_; ++spins)
        spins < kSpins ? _mm_pause() : static_cast<void>(sched_yield());
    add_all(data, count, parity);
  }

  __attribute__((target_clones("avx512f", "avx2", "default"))) void add_all(float* data, std::size_t count, unsigned parity) {
    const float* first = reinterpret_cast<const float*>(shared_.side[0].buffer[parity]);
    const float* second = reinterpret_cast<const float*>(shared_.side[1].buffer[parity]);
    for (std::size_t i = 0; i < count; ++i) data[i] = first[i] + second[i];
    for (int r = 2; r < ranks_; ++r) {
      const float* more = reinterpret_cast<const float*>(shared_.side[r].buffer[parity]);
      for (std::size_t i = 0; i < count; ++i) data[i] += more[i];
    }
  }

  Shared& shared_;
  const int rank_, ranks_;
  std::uint64_t operation_ = 0;
};

}  // namespace copy_wait
