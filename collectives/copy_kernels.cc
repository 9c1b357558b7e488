// Loops of the copy kernels; the one with non-temporal stores is compiled once per instruction set.
//
// Budget: no system calls, allocations or locks; at most one indirect call per copy; each byte read and
// stored once.
#include "collectives/copy_kernels.h"

#include <cstdint>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/copy_kernels.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"

#if HWY_ARCH_X86
#include <cpuid.h>
#endif

#ifndef SLIPRING_COPY_KERNELS_ONCE
#define SLIPRING_COPY_KERNELS_ONCE
namespace slipring::collectives {
namespace {

constexpr std::size_t kLineBytes = 64;
// Lines between a store and the request for ownership ahead of it, and the size from which the string move is
// the faster way; both from memcpy_bench handed_over.
constexpr std::size_t kOwnershipAheadBytes = 16 * kLineBytes;
constexpr std::size_t kStringMoveBytes = 4096;

// The compiler's prefetch for writing becomes a prefetch for reading unless the whole file is built for CPUs
// that have prefetchw; those that lack it execute it as a no-op.
inline void request_ownership(std::byte* line) {
#if HWY_ARCH_X86
  asm volatile("prefetchw %0" : : "m"(*line));
#else
  __builtin_prefetch(line, 1, 3);
#endif
}

// The string move takes whole lines over without reading them first, and leaves them in the cache: 43 GB/s
// into lines of a far core where vector stores reach 8 (memcpy_bench handed_over), and as good as any
// elsewhere. memcpy uses it too, but up to the size of L2 only. Sanitizers cannot see its accesses and get
// memcpy.
#if HWY_ARCH_X86 && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
bool has_fast_string_move() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & (1u << 9)) != 0;  // ERMS
}
const bool fast_string_move = has_fast_string_move();

inline bool string_move(void* dst, const void* src, std::size_t bytes) {
  if (!fast_string_move) return false;
  asm volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(bytes) : : "memory");
  return true;
}
#else
inline bool string_move(void*, const void*, std::size_t) {
  return false;
}
#endif

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

}  // namespace HWY_NAMESPACE
}  // namespace slipring::collectives
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace slipring::collectives {

HWY_EXPORT(nontemporal);

void copy_plain(void* dst, const void* src, std::size_t bytes) noexcept {
  if (bytes != 0) std::memcpy(dst, src, bytes);
}

void copy_nontemporal(void* dst, const void* src, std::size_t bytes) noexcept {
  if (bytes != 0) HWY_DYNAMIC_DISPATCH(nontemporal)(dst, src, bytes);
}

// Not per instruction set: 16-byte stores reach the peer sooner than 64-byte ones (memcpy_bench handed_over).
void copy_prefetched(void* dst, const void* src, std::size_t bytes) noexcept {
  if (bytes >= kStringMoveBytes && string_move(dst, src, bytes)) return;
  auto* to = static_cast<std::byte*>(dst);
  const auto* from = static_cast<const std::byte*>(src);
  const std::size_t ahead = bytes < kOwnershipAheadBytes ? bytes : kOwnershipAheadBytes;
  for (std::size_t line = 0; line < ahead; line += kLineBytes) request_ownership(to + line);
  std::size_t done = 0;
  for (; bytes - done >= kLineBytes; done += kLineBytes) {
    if (bytes - done > kOwnershipAheadBytes) request_ownership(to + done + kOwnershipAheadBytes);
    std::memcpy(to + done, from + done, kLineBytes);
  }
  if (bytes != done) std::memcpy(to + done, from + done, bytes - done);
}

}  // namespace slipring::collectives
#endif
