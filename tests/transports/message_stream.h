// MessageStream: messages of random sizes whose every byte follows from (seed, channel, sequence), so that the
// receiver knows what must come: sequence, content and conservation are checked without a second path.
// Two streams with the same arguments give the same messages. One thread.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>

namespace slipring::tests {

class MessageStream {
 public:
  MessageStream(std::uint64_t seed, int channel, std::size_t max_bytes)
      : random_(seed * 1'000'003 + static_cast<std::uint64_t>(channel)), max_bytes_(max_bytes) {}

  /// Goes on to the next message.
  void next() {
    ++sequence_;
    key_ = random_();
    // Three in four around the border between descriptor and payload area, the others up to the largest.
    const std::size_t limit = random_() % 4 != 0 ? std::min<std::size_t>(max_bytes_, 80) : max_bytes_;
    bytes_ = random_() % 64 == 0 ? max_bytes_ : random_() % (limit + 1);
  }

  std::size_t bytes() const { return bytes_; }
  std::uint64_t sequence() const { return sequence_; }

  void fill(std::span<std::byte> slot) const {
    std::uint64_t word = key_ ^ sequence_;
    std::size_t at = 0;
    for (; at + sizeof(word) <= slot.size(); at += sizeof(word), word = mixed(word)) {
      std::memcpy(slot.data() + at, &word, sizeof(word));
    }
    std::memcpy(slot.data() + at, &word, slot.size() - at);
  }

  void expect(std::span<const std::byte> message) const {
    ASSERT_EQ(message.size(), bytes_) << "message " << sequence_;
    std::uint64_t word = key_ ^ sequence_;
    std::size_t at = 0;
    for (; at + sizeof(word) <= message.size(); at += sizeof(word), word = mixed(word)) {
      ASSERT_EQ(std::memcmp(message.data() + at, &word, sizeof(word)), 0) << "message " << sequence_ << " byte " << at;
    }
    ASSERT_EQ(std::memcmp(message.data() + at, &word, message.size() - at), 0) << "message " << sequence_;
  }

 private:
  static std::uint64_t mixed(std::uint64_t word) { return word * 6'364'136'223'846'793'005u + 1'442'695'040'888'963'407u; }

  std::mt19937_64 random_;
  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::uint64_t sequence_ = 0, key_ = 0;
};

/// A seed that differs from run to run, or SLIPRING_TEST_SEED; printed, so that a failure can be repeated.
inline std::uint64_t printed_seed() {
  const char* given = std::getenv("SLIPRING_TEST_SEED");
  const std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("seed %llu (repeat with SLIPRING_TEST_SEED=)\n", static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace slipring::tests
