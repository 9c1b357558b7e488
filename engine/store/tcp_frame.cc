#include "engine/store/tcp_frame.h"

#include <algorithm>

#include "base/status.h"

namespace slipring::engine {
namespace {

constexpr std::string_view kMagic = "SLPR";

template <class Integer>
void append(std::string& bytes, Integer number) {
  for (std::size_t i = 0; i < sizeof(Integer); ++i) {
    bytes.push_back(static_cast<char>(static_cast<std::uint64_t>(number) >> (8 * i)));
  }
}

// Reads fields in order; the caller has checked that the bytes suffice.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) noexcept : bytes_(bytes) {}

  template <class Integer>
  Integer read() {
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < sizeof(Integer); ++i) {
      number |= std::uint64_t{static_cast<std::uint8_t>(bytes_[i])} << (8 * i);
    }
    bytes_.remove_prefix(sizeof(Integer));
    return static_cast<Integer>(number);
  }

  template <std::size_t N>
  std::array<std::uint8_t, N> read_bytes() {
    std::array<std::uint8_t, N> bytes;
    std::copy_n(bytes_.begin(), N, bytes.begin());
    bytes_.remove_prefix(N);
    return bytes;
  }

 private:
  std::string_view bytes_;
};

std::string_view text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Status check_opening(std::string_view what, std::string_view bytes, std::size_t expected_bytes) {
  if (bytes.size() != expected_bytes) {
    return base::error(StatusCode::corrupt, "{} has {} bytes, expected {}", what, bytes.size(),
                       expected_bytes);
  }
  if (!bytes.starts_with(kMagic)) {
    return base::error(StatusCode::corrupt, "{} does not start with the magic of a slipring store", what);
  }
  return {};
}

bool carries_value(StoreOperation operation) {
  return operation == StoreOperation::set || operation == StoreOperation::claim;
}

}  // namespace

std::string encode_hello(const StoreHello& hello) {
  std::string bytes(kMagic);
  append(bytes, hello.version);
  append(bytes, std::uint16_t{0});
  bytes.append(text_of(hello.nonce)).append(text_of(hello.challenge));
  return bytes;
}

Result<StoreHello> decode_hello(std::string_view bytes) {
  if (Status status = check_opening("hello", bytes, kStoreHelloBytes); !status) return status;
  FieldReader reader(bytes.substr(kMagic.size()));
  StoreHello hello;
  hello.version = reader.read<std::uint16_t>();
  if (const auto reserved = reader.read<std::uint16_t>(); reserved != 0) {
    return base::error(StatusCode::corrupt, "hello has {} in its reserved field", reserved);
  }
  hello.nonce = reader.read_bytes<16>();
  hello.challenge = reader.read_bytes<16>();
  return hello;
}

bool may_become_hello(std::string_view bytes) noexcept {
  const std::size_t count = std::min(bytes.size(), kMagic.size());
  return bytes.substr(0, count) == kMagic.substr(0, count);
}

std::string encode_welcome(const StoreWelcome& welcome) {
  std::string bytes(kMagic);
  append(bytes, welcome.version);
  append(bytes, static_cast<std::uint16_t>(welcome.verdict));
  bytes.append(text_of(welcome.challenge));
  return bytes;
}

Result<StoreWelcome> decode_welcome(std::string_view bytes) {
  if (Status status = check_opening("welcome", bytes, kStoreWelcomeBytes); !status) return status;
  FieldReader reader(bytes.substr(kMagic.size()));
  StoreWelcome welcome;
  welcome.version = reader.read<std::uint16_t>();
  const auto verdict = reader.read<std::uint16_t>();
  if (verdict > static_cast<std::uint16_t>(StoreVerdict::other_job)) {
    return base::error(StatusCode::corrupt, "welcome has the unknown verdict {}", verdict);
  }
  welcome.verdict = static_cast<StoreVerdict>(verdict);
  welcome.challenge = reader.read_bytes<16>();
  return welcome;
}

Result<Proof> prove_side(StoreSide side, std::string_view job_token, const StoreHello& hello,
                         const StoreWelcome& welcome) {
  // The side is part of the message, so that a proof cannot be reflected to the one who made it.
  const std::string_view label =
      side == StoreSide::client ? "slipring store client" : "slipring store server";
  return prove(job_token, {label, encode_hello(hello), encode_welcome(welcome)});
}

std::string encode_request(StoreOperation operation, std::uint32_t id, std::string_view key,
                           std::string_view value) {
  std::string bytes;
  bytes.reserve(kStoreRequestHeaderBytes + key.size() + value.size());
  append(bytes, static_cast<std::uint32_t>(value.size()));
  append(bytes, id);
  append(bytes, static_cast<std::uint8_t>(operation));
  append(bytes, static_cast<std::uint8_t>(key.size()));
  append(bytes, std::uint16_t{0});
  bytes.append(key).append(value);
  return bytes;
}

Result<StoreRequestHeader> decode_request_header(std::string_view bytes) {
  if (bytes.size() != kStoreRequestHeaderBytes) {
    return base::error(StatusCode::corrupt, "request header has {} bytes, expected {}", bytes.size(),
                       kStoreRequestHeaderBytes);
  }
  FieldReader reader(bytes);
  StoreRequestHeader header;
  header.value_bytes = reader.read<std::uint32_t>();
  header.id = reader.read<std::uint32_t>();
  const auto operation = reader.read<std::uint8_t>();
  header.key_bytes = reader.read<std::uint8_t>();
  const auto reserved = reader.read<std::uint16_t>();
  if (operation < static_cast<std::uint8_t>(StoreOperation::set) ||
      operation > static_cast<std::uint8_t>(StoreOperation::remove)) {
    return base::error(StatusCode::corrupt, "request has the unknown operation {}", operation);
  }
  header.operation = static_cast<StoreOperation>(operation);
  if (header.key_bytes == 0 || reserved != 0) {
    return base::error(StatusCode::corrupt, "request has key bytes {} and {} in its reserved field",
                       header.key_bytes, reserved);
  }
  const bool fits = carries_value(header.operation)           ? header.value_bytes <= kMaxStoreValueBytes
                    : header.operation == StoreOperation::add ? header.value_bytes == sizeof(std::int64_t)
                                                              : header.value_bytes == 0;
  if (!fits) {
    return base::error(StatusCode::corrupt, "request of operation {} has value bytes {}", operation,
                       header.value_bytes);
  }
  return header;
}

std::string encode_reply(std::uint32_t id, bool found, StatusCode code, std::string_view body) {
  std::string bytes;
  bytes.reserve(kStoreReplyHeaderBytes + body.size());
  append(bytes, static_cast<std::uint32_t>(body.size()));
  append(bytes, id);
  append(bytes, static_cast<std::uint8_t>(code));
  append(bytes, static_cast<std::uint8_t>(found ? 1 : 0));
  append(bytes, std::uint16_t{0});
  bytes.append(body);
  return bytes;
}

Result<StoreReplyHeader> decode_reply_header(std::string_view bytes) {
  if (bytes.size() != kStoreReplyHeaderBytes) {
    return base::error(StatusCode::corrupt, "reply header has {} bytes, expected {}", bytes.size(),
                       kStoreReplyHeaderBytes);
  }
  FieldReader reader(bytes);
  StoreReplyHeader header;
  header.body_bytes = reader.read<std::uint32_t>();
  header.id = reader.read<std::uint32_t>();
  const auto code = reader.read<std::uint8_t>();
  const auto found = reader.read<std::uint8_t>();
  const auto reserved = reader.read<std::uint16_t>();
  if (header.body_bytes > kMaxStoreValueBytes || code > static_cast<std::uint8_t>(StatusCode::would_block) ||
      found > 1 || reserved != 0) {
    return base::error(StatusCode::corrupt,
                       "reply has body bytes {} code {} found {} and {} in its reserved field",
                       header.body_bytes, code, found, reserved);
  }
  header.code = static_cast<StatusCode>(code);
  header.found = found == 1;
  return header;
}

std::string encode_count(std::int64_t count) {
  std::string bytes;
  append(bytes, static_cast<std::uint64_t>(count));
  return bytes;
}

Result<std::int64_t> decode_count(std::string_view bytes) {
  if (bytes.size() != sizeof(std::int64_t)) {
    return base::error(StatusCode::corrupt, "count has {} bytes, expected 8", bytes.size());
  }
  return static_cast<std::int64_t>(FieldReader(bytes).read<std::uint64_t>());
}

}  // namespace slipring::engine
