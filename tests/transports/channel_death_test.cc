// Either side is killed anywhere in its traffic: the survivor reads only whole messages, in order, and then
// gets peer_lost from its Watch.
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>
#include <thread>

#include "tests/transports/channel_rig.h"
#include "tests/transports/message_stream.h"

namespace slipring::tests {
namespace {

constexpr int kDeaths = base::kThreadSanitizer ? 5 : 40;

const FarBody produce_for_ever("produce_for_ever", [](Side& side, const RoleArguments& arguments) {
  MessageStream stream(std::stoull(arguments[0]), 0, side.producer().max_loan_bytes());
  for (std::span<std::byte> slot;;) {
    stream.next();
    if (!side.producer().loan(stream.bytes(), slot, Side::soon())) return;
    stream.fill(slot);
    side.producer().publish();
  }
});

const FarBody consume_for_ever("consume_for_ever", [](Side& side, const RoleArguments&) {
  for (std::span<const std::byte> message;;) {
    if (!side.consumer().peek(message, Side::soon())) return;
    side.consumer().release();
  }
});

// The killer strikes after a random time, in whatever the far side does then.
class Killer {
 public:
  Killer(ChannelRig& rig, std::chrono::microseconds delay)
      : thread_([&rig, delay] {
          std::this_thread::sleep_for(delay);
          rig.kill_far();
        }) {}
  ~Killer() { thread_.join(); }

 private:
  std::thread thread_;
};

TEST(ChannelDeath, AKilledProducerLeavesOnlyWholeMessages) {
  const std::uint64_t seed = printed_seed();
  std::mt19937_64 random(seed);
  for (int death = 0; death < kDeaths; ++death) {
    ChannelRig rig(Transport::shm, {.ring = {.slots = 4, .payload_bytes = 8192, .start = 0}});
    rig.start_far("produce_for_ever", {std::to_string(seed)});
    MessageStream stream(seed, 0, rig.near().shape().ring.max_message_bytes());
    std::span<const std::byte> message;
    Status s = rig.near().consumer().peek(message, Side::soon());  // it has begun
    ASSERT_TRUE(s) << s.to_string();
    Killer killer(rig, std::chrono::microseconds(random() % 5000));
    while ((s = rig.near().consumer().peek(message, Side::soon()))) {
      stream.next();
      stream.expect(message);
      if (HasFatalFailure()) break;
      rig.near().consumer().release();
    }
    EXPECT_EQ(s.code(), StatusCode::peer_lost) << s.to_string();
  }
}

TEST(ChannelDeath, AKilledConsumerStopsTheProducer) {
  std::mt19937_64 random(printed_seed());
  for (int death = 0; death < kDeaths; ++death) {
    ChannelRig rig(Transport::shm, {.ring = {.slots = 4, .payload_bytes = 8192, .start = 0}});
    rig.start_far("consume_for_ever");
    std::span<std::byte> slot;
    for (int i = 0; i < 100; ++i) {  // it has begun
      ASSERT_TRUE(rig.near().producer().loan(16, slot, Side::soon()));
      rig.near().producer().publish();
    }
    Killer killer(rig, std::chrono::microseconds(random() % 5000));
    Status s;
    while ((s = rig.near().producer().loan(random() % 4096, slot, Side::soon()))) rig.near().producer().publish();
    EXPECT_EQ(s.code(), StatusCode::peer_lost) << s.to_string();
    EXPECT_NE(s.message().find("rank 1"), std::string::npos) << s.message();
  }
}

// Asleep on the futex when the peer dies: nobody rings, the liveness period ends the wait.
TEST(ChannelDeath, ASleeperLearnsOfTheDeath) {
  ChannelRig rig(Transport::shm);
  rig.start_far("consume_for_ever");
  Killer killer(rig, std::chrono::milliseconds(30));
  std::span<const std::byte> message;
  const Status s = rig.near().consumer().peek(message, Side::soon());
  EXPECT_EQ(s.code(), StatusCode::peer_lost) << s.to_string();
  EXPECT_GT(rig.near().waiter().counts().sleeps, 0u);
}

}  // namespace
}  // namespace slipring::tests
