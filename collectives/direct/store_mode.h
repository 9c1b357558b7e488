// StoreMode: with which stores a rank fills memory that another rank reads next.
//
// Lines that a core of another cache domain read last are slow to take back: there, stores that go around the
// cache move twice as much or more; inside one cache domain it is the other way round (reduce_kernels_bench,
// BM_handed_over_buffer). Which case holds depends on where the ranks run, and under a hypervisor it changes
// while they run. So the rank measures: now and then it times a few KiB of ordinary stores into the slot that
// it is about to fill anyway. Each rank decides for itself; nobody needs to agree. One thread; never fails.
#pragma once

#include <cstddef>
#include <cstdint>

namespace slipring::collectives {

class StoreMode {
 public:
  enum class Choice : std::uint8_t { automatic, cached, nontemporal };

  explicit StoreMode(Choice choice = Choice::automatic) noexcept : choice_(choice) {}

  /// Copies into memory that another rank reads next and read last; may measure.
  void copy(void* dst, const void* src, std::size_t bytes) noexcept {
    if (bytes < kSmallest) [[likely]] return copy_small(dst, src, bytes);
    copy_large(dst, src, bytes);
  }
  /// Whether stores of this size should go around the cache now. Never measures.
  bool nontemporal(std::size_t bytes) const noexcept { return bytes >= kSmallest && nontemporal_; }

  /// Below this size the cost is in the hand-over, not in the stores, wherever the ranks run.
  static constexpr std::size_t kSmallest = 2048;

 private:
  static void copy_small(void* dst, const void* src, std::size_t bytes) noexcept;
  void copy_large(void* dst, const void* src, std::size_t bytes) noexcept;
  void measure(void* dst, const void* src, std::size_t bytes) noexcept;

  Choice choice_;
  bool nontemporal_ = choice_ == Choice::nontemporal;
  bool doubtful_ = true;  // the last measurement disagreed with the choice in force
  std::uint32_t until_measurement_ = 4;
};

}  // namespace slipring::collectives
