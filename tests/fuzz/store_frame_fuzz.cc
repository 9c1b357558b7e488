// Feeds bytes from strangers to the decoders of the tcp store's frames: whatever comes, they answer with a
// value within the bounds or with an error, and what they accept they would have written themselves.
//
// LLVMFuzzerTestOneInput is the entry for libFuzzer (clang++ -fsanitize=fuzzer -DSLIPRING_LIBFUZZER); without
// it a test drives the same entry with mutations of valid frames.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "engine/store/tcp_frame.h"

namespace {

using namespace slipring;
using namespace slipring::engine;

// Not an assertion of a test framework: libFuzzer wants the process to die on a finding.
void require(bool holds) {
  if (!holds) std::abort();
}

std::string_view first(std::string_view bytes, std::size_t count) {
  return bytes.substr(0, count);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto hello = decode_hello(bytes); hello) {
    require(may_become_hello(bytes));
    require(encode_hello(hello.value()) == bytes);
  }
  if (const auto welcome = decode_welcome(bytes); welcome) require(encode_welcome(welcome.value()) == bytes);
  if (const auto request = decode_request_header(first(bytes, kStoreRequestHeaderBytes)); request) {
    const StoreRequestHeader& header = request.value();
    require(header.key_bytes >= 1 && header.value_bytes <= kMaxStoreValueBytes);
    require(kStoreRequestHeaderBytes + header.key_bytes + header.value_bytes <= kMaxStoreRequestBytes);
    const std::string again = encode_request(header.operation, header.id, std::string(header.key_bytes, 'k'),
                                             std::string(header.value_bytes, 'v'));
    require(first(again, kStoreRequestHeaderBytes) == first(bytes, kStoreRequestHeaderBytes));
  }
  if (const auto reply = decode_reply_header(first(bytes, kStoreReplyHeaderBytes)); reply) {
    const StoreReplyHeader& header = reply.value();
    require(header.body_bytes <= kMaxStoreValueBytes);
    const std::string again =
        encode_reply(header.id, header.found, header.code, std::string(header.body_bytes, 'b'));
    require(first(again, kStoreReplyHeaderBytes) == first(bytes, kStoreReplyHeaderBytes));
  }
  if (const auto count = decode_count(bytes); count) require(encode_count(count.value()) == bytes);
  return 0;
}

#ifndef SLIPRING_LIBFUZZER
#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace {

void feed(std::string_view bytes) {
  // An exact copy on the heap, so that AddressSanitizer sees a read past the end.
  const std::vector<std::uint8_t> copy(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
}

const std::vector<std::string>& valid_frames() {
  static const std::vector<std::string> frames{
      encode_hello({}),
      encode_welcome({}),
      encode_request(StoreOperation::set, 1, "key", "value"),
      encode_request(StoreOperation::get, 2, std::string(255, 'k'), ""),
      encode_request(StoreOperation::add, 3, "key", encode_count(-1)),
      encode_reply(4, true, StatusCode::ok, "value"),
      encode_reply(5, false, StatusCode::invalid_argument, "why"),
      encode_count(INT64_MIN)};
  return frames;
}

TEST(StoreFrame, EveryCutOfAValidFrameIsTakenOrRefused) {
  for (const std::string& frame : valid_frames()) {
    for (std::size_t bytes = 0; bytes <= frame.size(); ++bytes)
      feed(std::string_view(frame).substr(0, bytes));
  }
}

TEST(StoreFrame, EveryValueOfEveryHeaderByteIsTakenOrRefused) {
  for (std::string frame : valid_frames()) {
    for (std::size_t at = 0; at < std::min<std::size_t>(frame.size(), kStoreHelloBytes); ++at) {
      const char before = frame[at];
      for (int value = 0; value < 256; ++value) {
        frame[at] = static_cast<char>(value);
        feed(frame);
      }
      frame[at] = before;
    }
  }
}

TEST(StoreFrame, RandomMutationsAreTakenOrRefused) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  RecordProperty("seed", std::to_string(seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 20000; ++i) {
    std::string frame = valid_frames()[random() % valid_frames().size()];
    for (unsigned n = random() % 6; n > 0; --n) frame[random() % frame.size()] = static_cast<char>(random());
    if (random() % 4 == 0) frame.resize(random() % (frame.size() + 8));
    feed(frame);
  }
}

TEST(StoreFrame, ValuesAboveTheBoundAreRefusedFromTheHeaderAlone) {
  std::string frame = encode_request(StoreOperation::set, 1, "key", std::string(kMaxStoreValueBytes, 'v'));
  EXPECT_TRUE(decode_request_header(first(frame, kStoreRequestHeaderBytes)));
  frame[0] = 1;
  EXPECT_EQ(decode_request_header(first(frame, kStoreRequestHeaderBytes)).status().code(),
            StatusCode::corrupt);
  frame[3] = static_cast<char>(0xff);
  EXPECT_EQ(decode_request_header(first(frame, kStoreRequestHeaderBytes)).status().code(),
            StatusCode::corrupt);
}

}  // namespace
#endif
