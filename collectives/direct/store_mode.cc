#include "collectives/direct/store_mode.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "collectives/copy_kernels.h"

namespace slipring::collectives {
namespace {

// Copies between two measurements. A measurement in the wrong mode costs about 2 us.
constexpr std::uint32_t kPeriod = 64;
// What one measurement stores at most: enough to fill the store buffer, little enough to be cheap.
constexpr std::size_t kSample = 8192;
// Ordinary stores ran at 3-6 GB/s into lines of a far core and at 20 or more into those of a near one.
constexpr double kFarBytesPerNs = 10.0;

void touch(const void* src, std::size_t bytes) noexcept {
  const auto* p = static_cast<const volatile char*>(src);
  for (std::size_t i = 0; i < bytes; i += 64) (void)p[i];
}

}  // namespace

void StoreMode::copy_small(void* dst, const void* src, std::size_t bytes) noexcept {
  copy_prefetched(dst, src, bytes);
}

void StoreMode::copy_large(void* dst, const void* src, std::size_t bytes) noexcept {
  if (choice_ == Choice::automatic && --until_measurement_ == 0) {
    const std::size_t sample = std::min(bytes, kSample);
    measure(dst, src, sample);
    dst = static_cast<char*>(dst) + sample;
    src = static_cast<const char*>(src) + sample;
    bytes -= sample;
  }
  if (nontemporal_)
    copy_nontemporal(dst, src, bytes);
  else
    copy_prefetched(dst, src, bytes);
}

void StoreMode::measure(void* dst, const void* src, std::size_t bytes) noexcept {
  touch(src, bytes);  // the source may come from DRAM; only the stores are to be timed
  const auto begin = std::chrono::steady_clock::now();
  copy_prefetched(dst, src, bytes);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // until the stores have left the store buffer
  const auto end = std::chrono::steady_clock::now();
  const double ns = std::chrono::duration<double, std::nano>(end - begin).count();
  const bool far = static_cast<double>(bytes) < kFarBytesPerNs * ns;
  // One slow sample may be an interrupt: two in a row count.
  const bool agrees = far == nontemporal_;
  if (!agrees && doubtful_) nontemporal_ = far;
  doubtful_ = !agrees;
  until_measurement_ = agrees ? kPeriod : 1;
}

}  // namespace slipring::collectives
