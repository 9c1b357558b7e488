// The kinds of store that memcpy_bench compares: copies, and sums that go into two outputs. Sizes are
// multiples of 64 bytes. Only what the measurements choose is in the library: base/copy.h and the reduction
// kernels.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/copy.h"
#include "collectives/reduce_kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace slipring::collectives {

using Copy = void (*)(void*, const void*, std::size_t);

struct Kind {
  std::string_view name;
  Copy copy;
};

inline constexpr std::size_t kLargestBytes = std::size_t{1} << 20;

inline void store_memcpy(void* dst, const void* src, std::size_t bytes) {
  std::memcpy(dst, src, bytes);
}
inline void store_handed_over(void* dst, const void* src, std::size_t bytes) {
  base::copy_handed_over(dst, src, bytes);
}

/// Whole lines in ascending order, by 16-byte stores on x86.
inline void store_lines(void* dst, const void* src, std::size_t bytes) {
  auto* to = static_cast<std::byte*>(dst);
  const auto* from = static_cast<const std::byte*>(src);
  for (std::size_t done = 0; done < bytes; done += 64) {
    std::memcpy(to + done, from + done, 64);
    asm volatile("" : : : "memory");  // keeps the compiler from making it one memmove
  }
}

/// The sum of a source with itself into a private output; what each sum below leaves there is hot.
template <bool kSecondOutput>
void sum(void* dst, const void* src, std::size_t bytes, std::size_t at = 0) {
  static thread_local std::vector<std::byte> output(kLargestBytes);
  static const ReduceFn kernel = reduce_kernel(DType::f32, ReduceOp::sum);
  const std::array<const void*, 2> sources = {src, src};
  kernel(output.data() + at, kSecondOutput ? dst : nullptr, sources.data(), 2, bytes / 4, 1);
  if (!kSecondOutput) base::copy_handed_over(dst, output.data() + at, bytes);
}

/// As the collectives call it.
inline void store_sum(void* dst, const void* src, std::size_t bytes) {
  sum<true>(dst, src, bytes);
}

template <std::size_t kPieceBytes>
void store_sum_pieces(void* dst, const void* src, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes; done += kPieceBytes) {
    sum<false>(static_cast<std::byte*>(dst) + done, static_cast<const std::byte*>(src) + done,
               std::min(kPieceBytes, bytes - done), done);
  }
}

#if defined(__x86_64__)
inline void store_rep_movsb(void* dst, const void* src, std::size_t bytes) {
  asm volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(bytes) : : "memory");
}

/// Asks for ownership of the lines 16 ahead of the stores.
inline void store_ahead(void* dst, const void* src, std::size_t bytes) {
  constexpr std::size_t kAhead = 16 * 64;
  auto* to = static_cast<std::byte*>(dst);
  const auto* from = static_cast<const std::byte*>(src);
  for (std::size_t line = 0; line < std::min(bytes, kAhead); line += 64) {
    asm volatile("prefetchw %0" : : "m"(to[line]));
  }
  for (std::size_t done = 0; done + 64 <= bytes; done += 64) {
    if (done + kAhead < bytes) asm volatile("prefetchw %0" : : "m"(to[done + kAhead]));
    std::memcpy(to + done, from + done, 64);
  }
}

inline void store_nontemporal(void* dst, const void* src, std::size_t bytes) {
  auto* to = static_cast<__m128i*>(dst);
  const auto* from = static_cast<const __m128i*>(src);
  for (; bytes >= 64; bytes -= 64, to += 4, from += 4) {
    for (int i = 0; i < 4; ++i) _mm_stream_si128(to + i, _mm_loadu_si128(from + i));
  }
  _mm_sfence();
}

__attribute__((target("avx2"))) inline void store_avx2(void* dst, const void* src, std::size_t bytes) {
  auto* to = static_cast<char*>(dst);
  const auto* from = static_cast<const char*>(src);
  for (; bytes >= 64; bytes -= 64, to += 64, from += 64) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 32));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), a);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 32), b);
  }
}

__attribute__((target("avx512f"))) inline void store_avx512(void* dst, const void* src, std::size_t bytes) {
  auto* to = static_cast<char*>(dst);
  const auto* from = static_cast<const char*>(src);
  for (; bytes >= 64; bytes -= 64, to += 64, from += 64) _mm512_storeu_si512(to, _mm512_loadu_si512(from));
}

/// Both outputs straight from registers.
__attribute__((target("avx2"))) inline void store_sum_twice(void* dst, const void* src, std::size_t bytes) {
  static thread_local std::vector<float> output(kLargestBytes / sizeof(float));
  auto* to = static_cast<float*>(dst);
  const auto* from = static_cast<const float*>(src);
  for (std::size_t i = 0; i < bytes / sizeof(float); i += 16) {
    const __m256 a = _mm256_loadu_ps(from + i);
    const __m256 b = _mm256_loadu_ps(from + i + 8);
    const __m256 c = _mm256_add_ps(a, a);
    const __m256 d = _mm256_add_ps(b, b);
    _mm256_storeu_ps(output.data() + i, c);
    _mm256_storeu_ps(output.data() + i + 8, d);
    _mm256_storeu_ps(to + i, c);
    _mm256_storeu_ps(to + i + 8, d);
  }
}
#endif

inline std::vector<Kind> copies() {
  std::vector<Kind> kinds = {
      {"memcpy", store_memcpy}, {"copy_handed_over", store_handed_over}, {"lines", store_lines}};
#if defined(__x86_64__)
  kinds.push_back({"rep_movsb", store_rep_movsb});
  kinds.push_back({"ahead_16", store_ahead});
  kinds.push_back({"nontemporal", store_nontemporal});
  if (__builtin_cpu_supports("avx2")) kinds.push_back({"loop_avx2", store_avx2});
  if (__builtin_cpu_supports("avx512f")) kinds.push_back({"loop_avx512", store_avx512});
#endif
  return kinds;
}

inline std::vector<Kind> sums() {
  std::vector<Kind> kinds = {{"sum", store_sum},
                             {"sum_pieces_4k", store_sum_pieces<4 << 10>},
                             {"sum_pieces_8k", store_sum_pieces<8 << 10>},
                             {"sum_pieces_16k", store_sum_pieces<16 << 10>},
                             {"sum_pieces_32k", store_sum_pieces<32 << 10>},
                             {"sum_pieces_64k", store_sum_pieces<64 << 10>},
                             {"sum_pieces_128k", store_sum_pieces<128 << 10>}};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) kinds.push_back({"sum_twice", store_sum_twice});
#endif
  return kinds;
}

}  // namespace slipring::collectives
