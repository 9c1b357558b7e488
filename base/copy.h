// The copy into memory that another core reads next: a slot of a ring, a staging slot, a buffer in a peer's
// heap.
//
// Such lines were read last, or are still held, by that other core, and ordinary vector stores fetch each of
// them before they overwrite it. Thread-safe, no allocation, no failure.
#pragma once

#include <cstddef>

namespace slipring::base {

/// Copies exactly `bytes` bytes, without alignment requirements, between ranges that do not overlap; either
/// pointer may be null when `bytes` is 0.
///
/// Afterwards the caller may publish with a release store and needs no fence, although the string move that
/// does large copies may perform its own stores in any order: x86 lets none of them pass a store that comes
/// after the instruction, other than the non-temporal stores that look similar (Intel SDM vol. 3,
/// "Fast-String Operation and Out-of-Order Stores"). The lines stay in this core's cache for the reader to
/// pull.
void copy_handed_over(void* dst, const void* src, std::size_t bytes) noexcept;

/// Makes this core the owner of memory that another core read last, without fetching it, so that the caller's own
/// stores run at the speed of its cache. The contents become zero.
void take_over(void* dst, std::size_t bytes) noexcept;

/// Asks for a line that this core will write soon. The compiler's own prefetch for writing becomes one for reading
/// unless the whole file is built for CPUs that have prefetchw; CPUs that lack it execute it as a no-op.
inline void request_ownership(const void* line) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1, 3);
#endif
}

}  // namespace slipring::base
