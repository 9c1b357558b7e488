// The machine's limit for a case: the additions and copies that a rank cannot avoid, done by all ranks at the
// same time on private memory, without any exchange between them. What a transport adds comes on top.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "turn.h"

namespace {

__attribute__((target_clones("avx512f", "avx2", "default"))) void add(float* to, const float* from,
                                                                      std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
}

__attribute__((target_clones("avx512f", "avx2", "default"))) void add_to(float* to, const float* a, const float* b,
                                                                         std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
}

class MemoryLimit : public turn::Contender {
 public:
  explicit MemoryLimit(const turn::Seat& seat) : ranks_(static_cast<std::size_t>(seat.size)) {}
  std::vector<std::string> ops() const override { return {"send_recv",      "stream",     "stream_in_place", "all_reduce", "all_gather",
            "reduce_scatter", "all_to_all", "broadcast",       "decode"}; }
  std::string version() const override { return "memcpy and f32 addition"; }
  bool exchanges_data() const override { return false; }

  // Each rank adds the others' contributions to its own share and copies the finished shares of the others.
  void all_reduce(float* buffer, std::size_t count) override {
    const float* other = reinterpret_cast<const float*>(source(count * sizeof(float)));
    const std::size_t share = count / ranks_;
    for (std::size_t r = 1; r < ranks_; ++r) add(buffer, other + r * share, share);
    std::memcpy(buffer + share, other + share, (count - share) * sizeof(float));
  }
  // What lies in private memory has to be staged where the others can read it, a piece at a time, and is read there.
  void all_gather(const float* in, float* out, std::size_t count) override {
    stage(in, count * sizeof(float));
    for (std::size_t r = 0; r < ranks_; ++r) fetch(out + r * count, count * sizeof(float));
  }
  void all_to_all(const float* in, float* out, std::size_t count) override {
    stage(in, (ranks_ - 1) * count * sizeof(float));
    for (std::size_t r = 0; r < ranks_; ++r) fetch(out + r * count, count * sizeof(float));
  }
  void reduce_scatter(const float* in, float* out, std::size_t count) override {
    stage(in, (ranks_ - 1) * count * sizeof(float));
    const float* other = reinterpret_cast<const float*>(source(kStagingBytes));
    constexpr std::size_t kPiece = kStagingBytes / sizeof(float);
    for (std::size_t r = 1; r < ranks_; ++r)
      for (std::size_t at = 0; at < count; at += kPiece) add_to(out + at, (r == 1 ? in : out) + at, other, std::min(kPiece, count - at));
  }
  // Every rank as the one that takes it out; the root's copy in goes on at the same time.
  void broadcast(float* buffer, std::size_t count) override { fetch(buffer, count * sizeof(float)); }

  // Copied in by the sender and out by the receiver, each through a piece of memory that stays in its cache.
  void send(const std::byte* buffer, std::size_t bytes, int) override {
    for (std::size_t at = 0; at < bytes; at += kStagingBytes) {
      std::memcpy(source(kStagingBytes), buffer + at, std::min(kStagingBytes, bytes - at));
    }
  }
  void recv(std::byte* buffer, std::size_t bytes, int) override {
    for (std::size_t at = 0; at < bytes; at += kStagingBytes) {
      std::memcpy(buffer + at, source(kStagingBytes), std::min(kStagingBytes, bytes - at));
    }
  }
  void produce(std::byte* buffers, std::size_t bytes, std::size_t messages, float value, int) override {
    for (std::size_t i = 0; i < messages; ++i) {
      turn::store_floats(buffers + i % turn::kStreamWindow * bytes, bytes, value);
    }
  }
  double consume(std::byte* buffers, std::size_t bytes, std::size_t messages, int) override {
    double sum = 0;
    for (std::size_t i = 0; i < messages; ++i) {
      sum += turn::sum_floats(buffers + i % turn::kStreamWindow * bytes, bytes);
    }
    return sum;
  }

 private:
  void stage(const void* from, std::size_t bytes) { send(static_cast<const std::byte*>(from), bytes, 0); }
  void fetch(void* to, std::size_t bytes) { recv(static_cast<std::byte*>(to), bytes, 0); }

  static constexpr std::size_t kStagingBytes = 64 * 1024;

  std::byte* source(std::size_t bytes) {
    if (bytes > bytes_) {
      memory_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)));
      if (!memory_) throw std::bad_alloc();
      bytes_ = bytes;
      std::memset(memory_.get(), 0, bytes);
    }
    return memory_.get();
  }

  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::size_t ranks_;
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t bytes_ = 0;
};

}  // namespace

int main() {
  const turn::Seat seat = turn::take_seat();
  MemoryLimit contender(seat);
  return turn::serve(seat, contender);
}
