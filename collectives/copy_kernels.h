// Copy kernels: memcpy variants whose stores suit where the destination lines are.
//
// All three copy exactly `bytes` bytes between any addresses that do not overlap; identical pointers are
// allowed. Thread-safe, no allocation, no failure. When a call returns, its stores are ordered like ordinary
// ones: the caller may publish with a release store.
#pragma once

#include <cstddef>

namespace slipring::collectives {

/// Lines in this core's cache, or to be read again soon by this core.
void copy_plain(void* dst, const void* src, std::size_t bytes) noexcept;

/// Stores that go around the cache. Non-temporal stores are not ordered by a release store on x86, so the
/// copy ends with a store fence.
void copy_nontemporal(void* dst, const void* src, std::size_t bytes) noexcept;

/// Destination lines were last read by another core: takes them over ahead of the stores, from 4 KiB on
/// without reading them (43 GB/s where ordinary stores reach 8), and leaves them in the cache for the reader
/// to pull.
void copy_prefetched(void* dst, const void* src, std::size_t bytes) noexcept;

}  // namespace slipring::collectives
