// Long random traffic: sequence, content and conservation, wherever the counters start, over several rings.
#include <gtest/gtest.h>

#include <deque>
#include <string>

#include "tests/transports/channel_rig.h"
#include "tests/transports/message_stream.h"

namespace slipring::tests {
namespace {

struct Traffic {
  std::uint64_t seed;
  int messages;

  RoleArguments to_arguments() const { return {std::to_string(seed), std::to_string(messages)}; }
  static Traffic from(const RoleArguments& a) { return {std::stoull(a[0]), std::stoi(a[1])}; }
};

// Publishes every channel's stream, all channels in turn, by whichever way of loaning the stream decides.
void produce(Side& side, const Traffic& traffic) {
  std::vector<MessageStream> streams;
  for (int c = 0; c < side.shape().channels; ++c) {
    streams.emplace_back(traffic.seed, c, side.producer(c).max_loan_bytes());
  }
  for (int i = 0; i < traffic.messages; ++i) {
    for (int c = 0; c < side.shape().channels; ++c) {
      auto& producer = side.producer(c);
      streams[c].next();
      std::span<std::byte> slot;
      Status s;
      if (i % 5 == 0) s = producer.try_loan(1 + i % 64, slot);  // replaced by the next loan, or would_block
      s = producer.loan(streams[c].bytes(), slot, Side::soon());
      ASSERT_TRUE(s) << "channel " << c << " message " << i << " " << s.to_string();
      streams[c].fill(slot);
      producer.publish();
    }
  }
  for (int c = 0; c < side.shape().channels; ++c) side.producer(c).close();
}

void consume(Side& side, const Traffic& traffic) {
  std::vector<MessageStream> streams;
  for (int c = 0; c < side.shape().channels; ++c) {
    streams.emplace_back(traffic.seed, c, side.shape().ring.max_message_bytes());
  }
  std::span<const std::byte> message;
  for (int i = 0; i < traffic.messages; ++i) {
    for (int c = 0; c < side.shape().channels; ++c) {
      const Status s = side.consumer(c).peek(message, Side::soon());
      ASSERT_TRUE(s) << "channel " << c << " message " << i << " " << s.to_string();
      streams[c].next();
      streams[c].expect(message);
      if (::testing::Test::HasFatalFailure()) return;
      side.consumer(c).release();
    }
  }
  for (int c = 0; c < side.shape().channels; ++c) {
    EXPECT_EQ(side.consumer(c).peek(message, Side::soon()).code(), StatusCode::closed) << "more than was sent";
  }
}

const FarBody far_produce("produce", [](Side& s, const RoleArguments& a) { produce(s, Traffic::from(a)); });
const FarBody far_consume("consume", [](Side& s, const RoleArguments& a) { consume(s, Traffic::from(a)); });

constexpr int kMessages = base::kThreadSanitizer ? 3'000 : 200'000;

class ChannelStress : public ::testing::TestWithParam<Transport> {};

TEST_P(ChannelStress, EveryMessageArrivesOnceInOrder) {
  const Traffic traffic{printed_seed(), kMessages};
  ChannelRig rig(GetParam());
  rig.start_far("consume", traffic.to_arguments());
  produce(rig.near(), traffic);
}

TEST_P(ChannelStress, EveryMessageArrivesOnceInOrderFromThePeer) {
  const Traffic traffic{printed_seed(), kMessages};
  ChannelRig rig(GetParam(), {.ring = {.slots = 2, .payload_bytes = 8192, .start = 0}});
  rig.start_far("produce", traffic.to_arguments());
  consume(rig.near(), traffic);
}

TEST_P(ChannelStress, SeveralRingsAtOnce) {
  const Traffic traffic{printed_seed(), kMessages / 10};
  ChannelRig rig(GetParam(), {.ring = {.slots = 4, .payload_bytes = 4096, .start = 0}, .channels = 5});
  rig.start_far("consume", traffic.to_arguments());
  produce(rig.near(), traffic);
}

TEST_P(ChannelStress, CountersThatCrossEveryWrap) {
  const Traffic traffic{printed_seed(), 500};
  for (const std::uint64_t start : {(std::uint64_t{1} << 31) - 8, (std::uint64_t{1} << 32) - 8, std::uint64_t{1} << 63,
                                    std::uint64_t{0} - 8}) {
    for (const std::uint32_t slots : {1u, 2u, 16u}) {
      SCOPED_TRACE(testing::Message() << "start " << start << " slots " << slots);
      ChannelRig rig(GetParam(), {.ring = {.slots = slots, .payload_bytes = 4096, .start = start}});
      rig.start_far("consume", traffic.to_arguments());
      produce(rig.near(), traffic);
    }
  }
}

// An idle peer while the counters wrap: nothing is overwritten, the producer blocks.
TEST_P(ChannelStress, AFullRingAcrossAWrapKeepsItsMessages) {
  ChannelRig rig(GetParam(), {.ring = {.slots = 16, .payload_bytes = 4096, .start = (std::uint64_t{1} << 32) - 8}});
  std::span<std::byte> slot;
  std::span<const std::byte> message;
  std::uint32_t published = 0;
  while (rig.near().producer().try_loan(sizeof(published), slot)) {
    std::memcpy(slot.data(), &published, sizeof(published));
    rig.near().producer().publish();
    ++published;
  }
  EXPECT_EQ(published, 16u);
  for (std::uint32_t i = 0, number = 0; i < published; ++i) {
    ASSERT_TRUE(rig.far_here().consumer().try_peek(message));
    std::memcpy(&number, message.data(), sizeof(number));
    ASSERT_EQ(number, i);
    rig.far_here().consumer().release();
  }
}

// All calls in random order against a queue that says what must happen: room is never shared by two messages
// that are both in flight, and would_block is never answered to a message that fits an empty channel.
TEST_P(ChannelStress, RandomCallsAgreeWithAQueue) {
  const std::uint64_t seed = printed_seed();
  std::mt19937_64 random(seed);
  for (int round = 0; round < 40; ++round) {
    const std::uint32_t payload_bytes = 128 * (1 + random() % 24);
    ChannelRig rig(GetParam(), {.ring = {.slots = 1u << random() % 5, .payload_bytes = payload_bytes, .start = random()}});
    auto& producer = rig.near().producer();
    auto& consumer = rig.far_here().consumer();
    MessageStream sent(seed, round, producer.max_loan_bytes()), taken(seed, round, producer.max_loan_bytes());
    std::deque<std::span<std::byte>> in_flight;
    sent.next();
    for (int call = 0; call < 3000; ++call) {
      if (random() % 2) {
        std::span<std::byte> slot;
        const Status s = producer.try_loan(sent.bytes(), slot);
        if (!s) {
          ASSERT_EQ(s.code(), StatusCode::would_block);
          ASSERT_FALSE(in_flight.empty()) << sent.bytes() << " bytes refused by an empty channel";
          continue;
        }
        for (const auto& other : in_flight) {
          ASSERT_TRUE(slot.data() + slot.size() <= other.data() || other.data() + other.size() <= slot.data());
        }
        sent.fill(slot);
        producer.publish();
        in_flight.push_back(slot);
        sent.next();
      } else {
        std::span<const std::byte> message;
        const Status s = consumer.try_peek(message);
        ASSERT_EQ(s.is_ok(), !in_flight.empty()) << s.to_string();
        if (!s) continue;
        taken.next();
        taken.expect(message);
        ASSERT_FALSE(HasFatalFailure());
        ASSERT_EQ(message.data(), in_flight.front().data());
        consumer.release();
        in_flight.pop_front();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, ChannelStress, ::testing::Values(Transport::inproc, Transport::shm),
                         [](const auto& p) { return transport_name(p.param); });

}  // namespace
}  // namespace slipring::tests
