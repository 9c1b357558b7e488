// Budget: no system calls, allocations or locks; each byte read and stored once.
#include "base/copy.h"

#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace slipring::base {
namespace {

constexpr std::size_t kLineBytes = 64;
// From here on the string move is the faster way, below it the loop over lines (memcpy_bench handed_over).
constexpr std::size_t kStringMoveBytes = 2304;

// The string move takes whole lines over without fetching them: 40 GB/s into lines of a far core where vector
// stores reach 8 (memcpy_bench handed_over), and as good as any elsewhere. memcpy uses it too, but up to the
// size of L2 only. Sanitizers cannot see its accesses and get memcpy.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
bool has_fast_string_move() noexcept {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & (1u << 9)) != 0;  // ERMS
}
const bool fast_string_move = has_fast_string_move();

bool string_move(void* dst, const void* src, std::size_t bytes) noexcept {
  if (!fast_string_move) return false;
  asm volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(bytes) : : "memory");
  return true;
}

bool string_store(void* dst, std::size_t bytes) noexcept {
  if (!fast_string_move) return false;
  asm volatile("rep stosb" : "+D"(dst), "+c"(bytes) : "a"(0) : "memory");
  return true;
}
#else
bool string_store(void*, std::size_t) noexcept {
  return false;
}
bool string_move(void*, const void*, std::size_t) noexcept {
  return false;
}
#endif

}  // namespace

void copy_handed_over(void* dst, const void* src, std::size_t bytes) noexcept {
  if (bytes >= kStringMoveBytes) {
    if (!string_move(dst, src, bytes)) std::memcpy(dst, src, bytes);
    return;
  }
  // One line after the other: memcpy stores both ends first, and a far reader then has everything up to 150
  // ns later, never sooner (memcpy_bench handed_over).
  auto* to = static_cast<std::byte*>(dst);
  const auto* from = static_cast<const std::byte*>(src);
  for (; bytes >= kLineBytes; bytes -= kLineBytes, to += kLineBytes, from += kLineBytes) {
    std::memcpy(to, from, kLineBytes);
  }
  if (bytes != 0) std::memcpy(to, from, bytes);
}

void take_over(void* dst, std::size_t bytes) noexcept {
  if (!string_store(dst, bytes)) std::memset(dst, 0, bytes);
}

}  // namespace slipring::base
