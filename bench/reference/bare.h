// The bare reference: two processes, float sum, as fast as it can be written, with nothing that makes a library:
// no other types, operators or group sizes, no checks, no error handling, endless spins. Slipring is measured
// against it. If something faster is found, it goes in here first.
//
// Both ranks map one Shared object and call the same functions in the same order.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace bare {

inline constexpr std::size_t kInline = 48;
inline constexpr std::size_t kOneShot = 128 * 1024;
inline constexpr std::size_t kChunk = 256 * 1024;
inline constexpr std::size_t kSlots = 4;
inline constexpr std::size_t kRing = 64;                 // messages of the stream under way
inline constexpr std::size_t kPiece = 64 * 1024;         // piece of a streamed message
inline constexpr std::size_t kPieces = 8;

struct alignas(64) Line {
  std::atomic<std::uint64_t> sequence;
  std::uint64_t extra;
  std::byte payload[kInline];
};

struct alignas(4096) Side {
  Line small[2];
  Line flag[2];
  alignas(64) std::atomic<std::uint64_t> sent;           // pieces of messages
  alignas(64) std::atomic<std::uint64_t> staged;
  alignas(64) std::atomic<std::uint64_t> reduced;
  Line message[kRing];                                   // written by this side
  alignas(64) std::atomic<std::uint64_t> taken;          // pieces that this side has read
  alignas(4096) std::byte box[2][kOneShot];
  alignas(4096) std::byte slot[kSlots][kChunk];
  alignas(4096) std::byte piece[kPieces][kPiece];
};

struct Shared {
  Side side[2];
};

inline void await(const std::atomic<std::uint64_t>& a, std::uint64_t value) {
  while (a.load(std::memory_order_acquire) < value) _mm_pause();
}

// For lines that the other core reads next and read last: the string move takes them over without reading them.
inline void copy_over(void* to, const void* from, std::size_t bytes) {
  if (bytes >= 2048) {
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
    return;
  }
  auto* d = static_cast<char*>(to);
  const auto* s = static_cast<const char*>(from);
  for (std::size_t i = 0; i < bytes; i += 64) __builtin_prefetch(d + i, 1);
  std::memcpy(d, s, bytes);
}

inline void add(float* out, const float* a, const float* b, std::size_t n) {
  std::size_t i = 0;
  for (; i + 16 <= n; i += 16) _mm512_storeu_ps(out + i, _mm512_add_ps(_mm512_loadu_ps(a + i), _mm512_loadu_ps(b + i)));
  for (; i < n; ++i) out[i] = a[i] + b[i];
}

// In pieces that are still in the first-level cache when they are copied over.
inline void add_to_both(float* out, float* out2, const float* a, const float* b, std::size_t n) {
  constexpr std::size_t kCount = 16 * 1024 / sizeof(float);
  for (std::size_t i = 0; i < n; i += kCount) {
    const std::size_t now = std::min(kCount, n - i);
    add(out + i, a + i, b + i, now);
    copy_over(out2 + i, out + i, now * sizeof(float));
  }
}

class Pair {
 public:
  Pair(Shared& shared, int rank) : mine_(shared.side[rank]), peer_(shared.side[1 - rank]), rank_(rank) {}

  void all_reduce(float* x, std::size_t n) {
    const std::size_t bytes = n * sizeof(float);
    ++k_;
    if (bytes <= kInline) return inline_all_reduce(x, n);
    if (bytes <= kOneShot) return one_shot(x, n);
    two_phase(x, n);
  }

  void send(const void* data, std::size_t bytes) {
    if (bytes <= kInline) {
      Line& line = mine_.message[++sent_ % kRing];
      std::memcpy(line.payload, data, bytes);
      line.sequence.store(sent_, std::memory_order_release);
      return;
    }
    const auto* from = static_cast<const std::byte*>(data);
    for (std::size_t done = 0; done < bytes; done += kPiece) {
      await(peer_.taken, out_ + 1 > kPieces ? out_ + 1 - kPieces : 0);
      std::byte* slot = mine_.piece[out_ % kPieces];
      const std::size_t now = std::min(kPiece, bytes - done);
      copy_over(slot, from + done, now);
      mine_.sent.store(++out_, std::memory_order_release);
    }
  }

  void recv(void* data, std::size_t bytes) {
    if (bytes <= kInline) {
      Line& line = peer_.message[++received_ % kRing];
      await(line.sequence, received_);
      std::memcpy(data, line.payload, bytes);
      return;
    }
    auto* to = static_cast<std::byte*>(data);
    for (std::size_t done = 0; done < bytes; done += kPiece) {
      await(peer_.sent, in_ + 1);
      std::memcpy(to + done, peer_.piece[in_ % kPieces], std::min(kPiece, bytes - done));
      mine_.taken.store(++in_, std::memory_order_release);
    }
  }

 private:
  void inline_all_reduce(float* x, std::size_t n) {
    Line& line = mine_.small[k_ & 1];
    std::memcpy(line.payload, x, n * sizeof(float));
    line.sequence.store(k_, std::memory_order_release);
    Line& other = peer_.small[k_ & 1];
    await(other.sequence, k_);
    float theirs[kInline / sizeof(float)];
    std::memcpy(theirs, other.payload, n * sizeof(float));
    for (std::size_t i = 0; i < n; ++i) x[i] += theirs[i];
    __builtin_prefetch(&mine_.small[(k_ & 1) ^ 1], 1);
  }

  void one_shot(float* x, std::size_t n) {
    const std::size_t bytes = n * sizeof(float);
    std::byte* box = mine_.box[k_ & 1];
    copy_over(box, x, bytes);
    mine_.flag[k_ & 1].sequence.store(k_, std::memory_order_release);
    await(peer_.flag[k_ & 1].sequence, k_);
    add(x, x, reinterpret_cast<float*>(peer_.box[k_ & 1]), n);
    __builtin_prefetch(&mine_.flag[(k_ & 1) ^ 1], 1);
  }

  // Halves of each chunk: `own` is reduced here, the other one there.
  struct Halves {
    std::size_t own, own_count, other, other_count;
  };
  Halves halves(std::size_t count) const {
    const std::size_t first = std::min(count, (count / 2 + 15) / 16 * 16);
    return rank_ == 0 ? Halves{0, first, first, count - first} : Halves{first, count - first, 0, first};
  }

  void two_phase(float* x, std::size_t n) {
    constexpr std::size_t kCount = kChunk / sizeof(float);
    const std::uint64_t end = chunks_ + (n + kCount - 1) / kCount;
    const std::uint64_t begin = chunks_;
    for (; chunks_ <= end; ++chunks_) {
      const std::uint64_t c = chunks_ - begin;
      if (chunks_ < end) {
        float* chunk = x + c * kCount;
        const Halves h = halves(std::min(kCount, n - c * kCount));
        auto* slot = reinterpret_cast<float*>(mine_.slot[chunks_ % kSlots]);
        auto* theirs = reinterpret_cast<float*>(peer_.slot[chunks_ % kSlots]);
        copy_over(slot + h.other, chunk + h.other, h.other_count * 4);
        mine_.staged.store(chunks_ + 1, std::memory_order_release);
        await(peer_.staged, chunks_ + 1);
        add_to_both(chunk + h.own, slot + h.own, chunk + h.own, theirs + h.own, h.own_count);
        mine_.reduced.store(chunks_ + 1, std::memory_order_release);
      }
      if (c > 0) {
        const Halves h = halves(std::min(kCount, n - (c - 1) * kCount));
        await(peer_.reduced, chunks_);
        const auto* theirs = reinterpret_cast<float*>(peer_.slot[(chunks_ - 1) % kSlots]);
        std::memcpy(x + (c - 1) * kCount + h.other, theirs + h.other, h.other_count * 4);
      }
    }
    chunks_ = end;
  }

  Side& mine_;
  Side& peer_;
  const int rank_;
  std::uint64_t k_ = 0, chunks_ = 0, sent_ = 0, received_ = 0, out_ = 0, in_ = 0;
};

}  // namespace bare
