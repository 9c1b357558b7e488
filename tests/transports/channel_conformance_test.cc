// What every channel promises (transports/channel.h), on every transport.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tests/transports/channel_rig.h"
#include "tests/transports/message_stream.h"

namespace slipring::tests {
namespace {

using transports::ChannelConsumer;
using transports::ChannelProducer;
using transports::kInlineBytes;

std::vector<std::size_t> border_sizes(std::size_t max) {
  return {0, 1, 15, 16, 17, kInlineBytes - 1, kInlineBytes, kInlineBytes + 1, 63, 64, 65, 127, 128, 129, 777, 4095, 4097,
          max / 2 - 1, max / 2, max / 2 + 1, max - 65, max - 64, max - 63, max - 1, max};
}

void publish_text(ChannelProducer& producer, const std::string& text) {
  std::span<std::byte> slot;
  const Status s = producer.try_loan(text.size(), slot);
  ASSERT_TRUE(s) << s.to_string();
  std::memcpy(slot.data(), text.data(), text.size());
  producer.publish();
}

std::string text_of(std::span<const std::byte> message) {
  return {reinterpret_cast<const char*>(message.data()), message.size()};
}

std::string peek_text(ChannelConsumer& consumer) {
  std::span<const std::byte> message;
  const Status s = consumer.try_peek(message);
  return s ? text_of(message) : s.to_string();
}

// Sends back every message until the near side closes.
const FarBody echo("echo", [](Side& side, const RoleArguments&) {
  for (;;) {
    std::span<const std::byte> message;
    const Status s = side.consumer().peek(message, Side::soon());
    if (!s) {
      EXPECT_EQ(s.code(), StatusCode::closed) << s.to_string();
      return;
    }
    std::span<std::byte> slot;
    const Status loaned = side.producer().loan(message.size(), slot, Side::soon());
    ASSERT_TRUE(loaned) << loaned.to_string();
    if (!message.empty()) std::memcpy(slot.data(), message.data(), message.size());
    side.producer().publish();
    side.consumer().release();
  }
});

// Takes arguments[0] messages, keeps the next in hand and closes.
const FarBody take_some_and_close("take_some_and_close", [](Side& side, const RoleArguments& arguments) {
  for (int i = 0; i <= std::stoi(arguments[0]); ++i) {
    std::span<const std::byte> message;
    const Status s = side.consumer().peek(message, Side::soon());
    ASSERT_TRUE(s) << s.to_string();
    if (i < std::stoi(arguments[0])) side.consumer().release();
  }
  side.consumer().close();
});

// Publishes arguments[0] messages and closes at once.
const FarBody publish_some_and_close("publish_some_and_close", [](Side& side, const RoleArguments& arguments) {
  for (int i = 0; i < std::stoi(arguments[0]); ++i) {
    std::span<std::byte> slot;
    const Status s = side.producer().loan(sizeof(i), slot, Side::soon());
    ASSERT_TRUE(s) << s.to_string();
    std::memcpy(slot.data(), &i, sizeof(i));
    side.producer().publish();
  }
  side.producer().close();
});

class Channel : public ::testing::TestWithParam<Transport> {};

TEST_P(Channel, CarriesEveryBorderSizeToAPeerAndBack) {
  ChannelRig rig(GetParam());
  rig.start_far("echo");
  Side& near = rig.near();
  std::uint64_t filler = 1;
  for (const std::size_t bytes : border_sizes(near.producer().max_loan_bytes())) {
    std::span<std::byte> slot;
    Status s = near.producer().loan(bytes, slot, Side::soon());
    ASSERT_TRUE(s) << bytes << " " << s.to_string();
    ASSERT_EQ(slot.size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slot.data()) % 16, 0u);
    std::vector<std::byte> sent(bytes);
    for (auto& b : sent) b = static_cast<std::byte>(filler = filler * 75 % 65'537);
    if (bytes) std::memcpy(slot.data(), sent.data(), bytes);
    near.producer().publish();
    std::span<const std::byte> message;
    s = near.consumer().peek(message, Side::soon());
    ASSERT_TRUE(s) << bytes << " " << s.to_string();
    EXPECT_TRUE(std::equal(message.begin(), message.end(), sent.begin(), sent.end())) << bytes;
    near.consumer().release();
  }
}

TEST_P(Channel, RefusesAMessageThatIsTooLargeAndStaysUsable) {
  ChannelRig rig(GetParam());
  std::span<std::byte> slot;
  const std::size_t max = rig.near().producer().max_loan_bytes();
  for (const std::size_t bytes : {max + 1, std::size_t{1} << 32, ~std::size_t{0}}) {
    EXPECT_EQ(rig.near().producer().try_loan(bytes, slot).code(), StatusCode::invalid_argument);
    const Status s = rig.near().producer().loan(bytes, slot, Side::soon());
    EXPECT_EQ(s.code(), StatusCode::invalid_argument);
    EXPECT_NE(s.message().find(std::to_string(bytes)), std::string::npos) << s.message();
    EXPECT_NE(s.message().find(std::to_string(max)), std::string::npos) << s.message();
  }
  publish_text(rig.near().producer(), "still here");
  EXPECT_EQ(peek_text(rig.far_here().consumer()), "still here");
}

TEST_P(Channel, BlocksWhenAllSlotsAreTakenAndGoesOnAfterARelease) {
  ChannelRig rig(GetParam());
  std::span<std::byte> slot;
  for (std::uint32_t i = 0; i < rig.near().shape().ring.slots; ++i) {
    publish_text(rig.near().producer(), std::to_string(i));
  }
  EXPECT_EQ(rig.near().producer().try_loan(1, slot).code(), StatusCode::would_block);
  EXPECT_EQ(rig.near().producer().try_loan(1, slot).code(), StatusCode::would_block);
  EXPECT_EQ(peek_text(rig.far_here().consumer()), "0");
  EXPECT_EQ(rig.near().producer().try_loan(1, slot).code(), StatusCode::would_block) << "a peek frees nothing";
  rig.far_here().consumer().release();
  publish_text(rig.near().producer(), "one more");
  EXPECT_EQ(rig.near().producer().try_loan(1, slot).code(), StatusCode::would_block);
}

TEST_P(Channel, BlocksWhenThePayloadAreaIsTakenThoughSlotsAreFree) {
  ChannelRig rig(GetParam());
  const std::size_t max = rig.near().producer().max_loan_bytes();
  std::span<std::byte> slot;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(rig.near().producer().try_loan(max, slot));
    rig.near().producer().publish();
  }
  EXPECT_EQ(rig.near().producer().try_loan(kInlineBytes + 1, slot).code(), StatusCode::would_block);
  publish_text(rig.near().producer(), "small ones need no area");
  std::span<const std::byte> message;
  ASSERT_TRUE(rig.far_here().consumer().try_peek(message));
  rig.far_here().consumer().release();
  EXPECT_TRUE(rig.near().producer().try_loan(max, slot));
}

TEST_P(Channel, KeepsALargeMessageInOnePieceAtTheEndOfTheArea) {
  ChannelRig rig(GetParam(), {.ring = {.slots = 8, .payload_bytes = 1024, .start = 0}});
  Side &near = rig.near(), &far = rig.far_here();
  const std::byte* area = near.payload(Side::Which::near, 0);
  // 320 + 320 leave 384 at the end: 448 must begin anew, once the first has gone.
  const std::size_t sizes[] = {320, 320, 448, 64, 512, 450, 449};
  std::span<std::byte> slot;
  std::span<const std::byte> message;
  int published = 0, taken = 0;
  for (const std::size_t bytes : sizes) {
    Status s;
    while (!(s = near.producer().try_loan(bytes, slot))) {
      ASSERT_EQ(s.code(), StatusCode::would_block);
      ASSERT_LT(taken, published) << bytes << " bytes never fit, though everything is free";
      ASSERT_TRUE(far.consumer().try_peek(message));
      ASSERT_EQ(message.size(), sizes[taken]);
      EXPECT_EQ(message.front(), static_cast<std::byte>(taken));
      EXPECT_EQ(message.back(), static_cast<std::byte>(taken));
      far.consumer().release();
      ++taken;
    }
    ASSERT_GE(slot.data(), area);
    ASSERT_LE(slot.data() + slot.size(), area + 1024);
    std::memset(slot.data(), published, slot.size());
    near.producer().publish();
    ++published;
  }
}

TEST_P(Channel, ASecondLoanReplacesTheFirst) {
  ChannelRig rig(GetParam());
  std::span<std::byte> slot;
  ASSERT_TRUE(rig.near().producer().try_loan(1000, slot));
  std::memset(slot.data(), 1, slot.size());
  ASSERT_TRUE(rig.near().producer().try_loan(2000, slot));
  ASSERT_TRUE(rig.near().producer().try_loan(3, slot));
  std::memcpy(slot.data(), "abc", 3);
  EXPECT_EQ(peek_text(rig.far_here().consumer()).substr(0, 11), "would_block");
  rig.near().producer().publish();
  EXPECT_EQ(peek_text(rig.far_here().consumer()), "abc");
  rig.far_here().consumer().release();
  EXPECT_EQ(peek_text(rig.far_here().consumer()).substr(0, 11), "would_block");
  // What was loaned and not published took no room for good.
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(rig.near().producer().try_loan(rig.near().producer().max_loan_bytes(), slot));
}

TEST_P(Channel, APeekTwiceGivesTheSameMessage) {
  ChannelRig rig(GetParam());
  publish_text(rig.near().producer(), "first");
  publish_text(rig.near().producer(), "second");
  std::span<const std::byte> one, two;
  ASSERT_TRUE(rig.far_here().consumer().try_peek(one));
  ASSERT_TRUE(rig.far_here().consumer().peek(two, Side::soon()));
  EXPECT_EQ(one.data(), two.data());
  EXPECT_EQ(text_of(two), "first");
  rig.far_here().consumer().release();
  EXPECT_EQ(peek_text(rig.far_here().consumer()), "second");
}

TEST_P(Channel, WhatWasPublishedBeforeACloseArrivesThenClosed) {
  for (const int messages : {0, 1, 7, 100, 5000}) {
    ChannelRig rig(GetParam());
    rig.start_far("publish_some_and_close", {std::to_string(messages)});
    std::span<const std::byte> message;
    for (int i = 0; i < messages; ++i) {
      const Status s = rig.near().consumer().peek(message, Side::soon());
      ASSERT_TRUE(s) << i << " of " << messages << ": " << s.to_string();
      int number = 0;
      std::memcpy(&number, message.data(), sizeof(number));
      ASSERT_EQ(number, i);
      rig.near().consumer().release();
    }
    EXPECT_EQ(rig.near().consumer().peek(message, Side::soon()).code(), StatusCode::closed);
    EXPECT_EQ(rig.near().consumer().try_peek(message).code(), StatusCode::closed) << "closed is final";
  }
}

TEST_P(Channel, AConsumerThatClosesWithMessagesInFlightStopsTheProducer) {
  for (const int taken : {0, 3, 1000}) {
    ChannelRig rig(GetParam());
    rig.start_far("take_some_and_close", {std::to_string(taken)});
    int published = 0;
    Status s;
    for (std::span<std::byte> slot; (s = rig.near().producer().loan(100, slot, Side::soon())); ++published) {
      rig.near().producer().publish();
    }
    EXPECT_EQ(s.code(), StatusCode::closed) << s.to_string();
    EXPECT_GE(published, taken + 1);
    EXPECT_NE(s.message().find("rank 1"), std::string::npos) << s.message();
  }
}

TEST_P(Channel, CloseTwiceAndCloseByDestructionAreOneClose) {
  ChannelRig rig(GetParam());
  rig.near().producer().close();
  rig.near().producer().close();
  EXPECT_EQ(peek_text(rig.far_here().consumer()).substr(0, 6), "closed");
}

TEST_P(Channel, AWaitEndsAtItsDeadlineAndNamesThePeer) {
  ChannelRig rig(GetParam());
  std::span<const std::byte> message;
  for (const int ms : {0, 1, 20, -1}) {  // -1: passed already
    const auto deadline = base::Deadline::after(std::chrono::milliseconds(ms));
    const Status s = rig.near().consumer().peek(message, deadline);
    EXPECT_EQ(s.code(), StatusCode::timeout);
    EXPECT_TRUE(deadline.passed());
    EXPECT_NE(s.message().find("rank 1, transport " + transport_name(GetParam())), std::string::npos) << s.message();
  }
  std::span<std::byte> slot;
  for (std::uint32_t i = 0; i < rig.near().shape().ring.slots; ++i) publish_text(rig.near().producer(), "x");
  EXPECT_EQ(rig.near().producer().loan(1, slot, base::Deadline::after_ms(5)).code(), StatusCode::timeout);
  // A wait that ended leaves the channel as it was.
  EXPECT_EQ(peek_text(rig.far_here().consumer()), "x");
}

TEST_P(Channel, AnInterruptEndsAWait) {
  ChannelRig rig(GetParam());
  rig.near().watch().interrupt();
  std::span<const std::byte> message;
  EXPECT_EQ(rig.near().consumer().peek(message, Side::soon()).code(), StatusCode::aborted);
}

TEST_P(Channel, TellsItsTransportAndPeer) {
  ChannelRig rig(GetParam());
  EXPECT_EQ(rig.near().producer().transport(), transport_name(GetParam()));
  EXPECT_EQ(rig.near().consumer().transport(), transport_name(GetParam()));
  EXPECT_EQ(rig.near().producer().peer(), 1);
  EXPECT_EQ(rig.far_here().consumer().peer(), 0);
}

INSTANTIATE_TEST_SUITE_P(Every, Channel, ::testing::Values(Transport::inproc, Transport::shm),
                         [](const auto& p) { return transport_name(p.param); });

}  // namespace
}  // namespace slipring::tests
