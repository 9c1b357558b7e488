// Loops of the copy kernels, compiled once per instruction set and resolved at the first copy.
//
// Budget: no system calls, allocations or locks; one indirect call per copy. Whole vectors are followed by one
// vector that ends exactly at the end and may overlap the one before: both write the same bytes.
#include "collectives/copy_kernels.h"

#include <atomic>
#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/copy_kernels.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/cache_control.h"
#include "hwy/highway.h"

#ifndef SLIPRING_COPY_KERNELS_ONCE
#define SLIPRING_COPY_KERNELS_ONCE
namespace slipring::collectives {
namespace {

constexpr std::size_t kLineBytes = 64;
// Lines between a store and the request for ownership ahead of it (memcpy_bench, handed_over).
constexpr std::size_t kOwnershipAheadBytes = 16 * kLineBytes;

// The compiler's prefetch for writing becomes a prefetch for reading unless the whole file is built for CPUs
// that have prefetchw; those that lack it execute it as a no-op.
inline void request_ownership(std::byte* line) {
#if HWY_ARCH_X86
  asm volatile("prefetchw %0" : : "m"(*line));
#else
  __builtin_prefetch(line, 1, 3);
#endif
}

}  // namespace
}  // namespace slipring::collectives
#endif

HWY_BEFORE_NAMESPACE();
namespace slipring::collectives {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Bytes = hn::ScalableTag<std::uint8_t>;

HWY_INLINE hn::Vec<Bytes> load(const std::byte* from) {
  return hn::LoadU(Bytes(), reinterpret_cast<const std::uint8_t*>(from));
}
HWY_INLINE void store(hn::Vec<Bytes> v, std::byte* to) {
  hn::StoreU(v, Bytes(), reinterpret_cast<std::uint8_t*>(to));
}
HWY_INLINE void stream(hn::Vec<Bytes> v, std::byte* to) {
  hn::Stream(v, Bytes(), reinterpret_cast<std::uint8_t*>(to));
}

void nontemporal(void* dst, const void* src, std::size_t bytes) {
  auto* to = static_cast<std::byte*>(dst);
  const auto* from = static_cast<const std::byte*>(src);
  const std::size_t step = hn::Lanes(Bytes());
  if (bytes < 2 * kLineBytes || step == 1) {
    std::memcpy(dst, src, bytes);
    return;
  }
  // Whole lines only: a line stored in part leaves the write-combining buffer as several bus transactions.
  const std::size_t head = (0 - reinterpret_cast<std::uintptr_t>(to)) % kLineBytes;
  std::memcpy(to, from, head);
  std::size_t done = head;
  for (; bytes - done >= kLineBytes; done += kLineBytes) {
    for (std::size_t i = 0; i < kLineBytes; i += step) stream(load(from + done + i), to + done + i);
  }
  std::memcpy(to + done, from + done, bytes - done);
  hwy::FlushStream();
}

void prefetched(void* dst, const void* src, std::size_t bytes) {
  auto* to = static_cast<std::byte*>(dst);
  const auto* from = static_cast<const std::byte*>(src);
  const std::size_t step = hn::Lanes(Bytes());
  const std::size_t ahead = bytes < kOwnershipAheadBytes ? bytes : kOwnershipAheadBytes;
  for (std::size_t line = 0; line < ahead; line += kLineBytes) request_ownership(to + line);
  std::size_t done = 0;
  if (step > 1) {
    for (; bytes - done >= kLineBytes; done += kLineBytes) {
      if (bytes - done > kOwnershipAheadBytes) request_ownership(to + done + kOwnershipAheadBytes);
      for (std::size_t i = 0; i < kLineBytes; i += step) store(load(from + done + i), to + done + i);
    }
  }
  std::memcpy(to + done, from + done, bytes - done);
}

}  // namespace HWY_NAMESPACE
}  // namespace slipring::collectives
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace slipring::collectives {

HWY_EXPORT(nontemporal);
HWY_EXPORT(prefetched);

void copy_plain(void* dst, const void* src, std::size_t bytes) noexcept {
  if (bytes != 0) std::memcpy(dst, src, bytes);
}

void copy_nontemporal(void* dst, const void* src, std::size_t bytes) noexcept {
  if (bytes != 0) HWY_DYNAMIC_DISPATCH(nontemporal)(dst, src, bytes);
}

void copy_prefetched(void* dst, const void* src, std::size_t bytes) noexcept {
  if (bytes != 0) HWY_DYNAMIC_DISPATCH(prefetched)(dst, src, bytes);
}

}  // namespace slipring::collectives
#endif
