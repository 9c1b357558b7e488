// A peer that writes nonsense into the shared words: corrupt or a refusal, never a span outside of the ring.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "tests/transports/channel_rig.h"
#include "tests/transports/message_stream.h"

namespace slipring::tests {
namespace {

using transports::RingDescriptor;
using transports::RingIndex;
using transports::StdAtomics;

using Index = RingIndex<StdAtomics>;
using Descriptor = RingDescriptor<StdAtomics>;

constexpr RigShape kShape{.ring = {.slots = 4, .payload_bytes = 4096, .start = 100}};

struct HostileView {
  Index& index;
  Descriptor* descriptors;

  explicit HostileView(const Side& side)
      : index(*reinterpret_cast<Index*>(side.control(Side::Which::near, 0))),
        descriptors(reinterpret_cast<Descriptor*>(side.control(Side::Which::near, 0) + sizeof(Index))) {}
};

void publish(Side& side, std::size_t bytes) {
  std::span<std::byte> slot;
  ASSERT_TRUE(side.producer().try_loan(bytes, slot));
  side.producer().publish();
}

TEST(HostileConsumer, AnImpossibleReleaseIsCorrupt) {
  for (const std::uint64_t nonsense : {std::uint64_t{0}, std::uint64_t{99}, std::uint64_t{105}, std::uint64_t{1} << 63,
                                       ~std::uint64_t{0}}) {
    ChannelRig rig(Transport::inproc, kShape);
    for (int i = 0; i < 4; ++i) publish(rig.near(), 16);
    HostileView(rig.near()).index.released = nonsense;
    std::span<std::byte> slot;
    const Status s = rig.near().producer().try_loan(16, slot);
    EXPECT_EQ(s.code(), StatusCode::corrupt) << nonsense;
    EXPECT_NE(s.message().find("rank 1"), std::string::npos) << s.message();
    EXPECT_EQ(rig.near().producer().loan(16, slot, Side::soon()).code(), StatusCode::corrupt);
  }
}

TEST(HostileConsumer, AReleaseThatGoesBackIsCorrupt) {
  ChannelRig rig(Transport::inproc, kShape);
  for (int i = 0; i < 4; ++i) publish(rig.near(), 16);
  HostileView view(rig.near());
  view.index.released = 103;
  for (int i = 0; i < 3; ++i) publish(rig.near(), 16);
  view.index.released = 101;
  std::span<std::byte> slot;
  EXPECT_EQ(rig.near().producer().try_loan(16, slot).code(), StatusCode::corrupt);
}

TEST(HostileProducer, AnImpossibleLengthOrOffsetIsCorrupt) {
  const std::uint64_t metas[] = {
      0xffff'ffff,                          // length
      std::uint64_t{2049},                  // length over the largest message
      std::uint64_t{64} << 32 | 64,         // begins at the end of the area
      std::uint64_t{63} << 32 | 65,         // runs over the end
      std::uint64_t{0xffff'ffff} << 32 | 49,
      ~std::uint64_t{0}};
  for (const std::uint64_t meta : metas) {
    ChannelRig rig(Transport::inproc, kShape);
    HostileView view(rig.near());
    view.descriptors[100 % 4].meta = meta;
    view.descriptors[100 % 4].sequence = 101;
    std::span<const std::byte> message;
    const Status s = rig.far_here().consumer().try_peek(message);
    EXPECT_EQ(s.code(), StatusCode::corrupt) << std::hex << meta;
    EXPECT_NE(s.message().find("rank 0"), std::string::npos) << s.message();
    EXPECT_EQ(rig.far_here().consumer().peek(message, Side::soon()).code(), StatusCode::corrupt);
  }
}

TEST(HostileProducer, ASequenceOfAnotherPositionIsNoMessage) {
  ChannelRig rig(Transport::inproc, kShape);
  HostileView view(rig.near());
  std::span<const std::byte> message;
  for (const std::uint64_t sequence : {std::uint64_t{0}, std::uint64_t{100}, std::uint64_t{105}, ~std::uint64_t{0}}) {
    view.descriptors[100 % 4].sequence = sequence;
    EXPECT_EQ(rig.far_here().consumer().try_peek(message).code(), StatusCode::would_block) << sequence;
  }
}

// Both sides go on working on a ring that somebody scribbles over; AddressSanitizer watches, and so does this.
TEST(HostilePeer, RandomScribbleNeverLeadsOutOfTheRing) {
  std::mt19937_64 random(printed_seed());
  for (int round = 0; round < 2000; ++round) {
    ChannelRig rig(Transport::inproc, kShape);
    Side &near = rig.near(), &far = rig.far_here();
    std::byte* const control = near.control(Side::Which::near, 0);
    std::byte* const payload = near.payload(Side::Which::near, 0);
    const auto inside = [&](const std::byte* data, std::size_t bytes) {
      return (data >= control && data + bytes <= control + near.control_bytes()) ||
             (data >= payload && data + bytes <= payload + near.shape().ring.payload_bytes);
    };
    // Values near the truth do the most harm.
    const auto scribble = [&] {
      std::uint64_t value = random();
      if (random() % 2) value = 95 + random() % 20;
      if (random() % 4 == 0) value = (random() % 66) << 32 | random() % 2100;
      const std::size_t words = near.control_bytes() / sizeof(value);
      reinterpret_cast<std::atomic<std::uint64_t>*>(control)[random() % words].store(value, std::memory_order_relaxed);
    };
    for (int call = 0; call < 50; ++call) {
      if (random() % 3 == 0) scribble();
      std::span<std::byte> slot;
      std::span<const std::byte> message;
      if (near.producer().try_loan(random() % 2200, slot)) {
        ASSERT_TRUE(inside(slot.data(), slot.size()));
        std::memset(slot.data(), 1, slot.size());
        near.producer().publish();
      }
      if (random() % 3 == 0) scribble();
      if (far.consumer().try_peek(message)) {
        ASSERT_TRUE(inside(message.data(), message.size()));
        volatile int sum = 0;
        for (const std::byte b : message) sum = sum + static_cast<int>(b);
        far.consumer().release();
      }
    }
  }
}

}  // namespace
}  // namespace slipring::tests
