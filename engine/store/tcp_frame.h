// Layout of the tcp store's bytes, for client and server: the handshake, requests and replies.
//
//   client -> hello    magic, version, job nonce, client challenge
//   server -> welcome  magic, version, verdict, server challenge
//   client -> proof    HMAC(token, "client", version, nonce, both challenges)
//   server -> proof    HMAC(token, "server", ...)         then requests and replies, one at a time
//
// Both challenges are fresh random bytes, so a recorded handshake proves nothing later. Integers are
// little-endian. Decoders take bytes from strangers: they check every field and allocate nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/store/job_token.h"
#include "engine/store/store.h"
#include "slipring/status.h"

namespace slipring::engine {

inline constexpr std::uint16_t kStoreProtocolVersion = 1;

enum class StoreVerdict : std::uint16_t { welcome = 0, other_version = 1, other_job = 2 };

struct StoreHello {
  std::uint16_t version = kStoreProtocolVersion;
  JobNonce nonce{};
  Challenge challenge{};
};
struct StoreWelcome {
  std::uint16_t version = kStoreProtocolVersion;
  StoreVerdict verdict = StoreVerdict::welcome;
  Challenge challenge{};
};

inline constexpr std::size_t kStoreHelloBytes = 4 + 2 + 2 + 16 + 16;
inline constexpr std::size_t kStoreWelcomeBytes = 4 + 2 + 2 + 16;
inline constexpr std::size_t kStoreProofBytes = sizeof(Proof);

std::string encode_hello(const StoreHello& hello);
Result<StoreHello> decode_hello(std::string_view bytes);
/// Whether a hello can still begin with these bytes: tells most strangers after their first word.
bool may_become_hello(std::string_view bytes) noexcept;
std::string encode_welcome(const StoreWelcome& welcome);
Result<StoreWelcome> decode_welcome(std::string_view bytes);

enum class StoreSide { client, server };
Result<Proof> prove_side(StoreSide side, std::string_view job_token, const StoreHello& hello,
                         const StoreWelcome& welcome);

enum class StoreOperation : std::uint8_t { set = 1, get = 2, try_get = 3, claim = 4, add = 5, remove = 6 };

struct StoreRequestHeader {
  std::uint32_t value_bytes = 0;
  std::uint32_t id =
      0;  ///< chosen by the client, echoed in the reply: a late reply is told from the awaited one
  StoreOperation operation = StoreOperation::get;
  std::uint8_t key_bytes = 0;
};
struct StoreReplyHeader {
  std::uint32_t body_bytes = 0;
  std::uint32_t id = 0;
  bool found = true;                 ///< false: try_get of an absent key
  StatusCode code = StatusCode::ok;  ///< otherwise the body is the error's text
};

inline constexpr std::size_t kStoreRequestHeaderBytes = 12;
inline constexpr std::size_t kStoreReplyHeaderBytes = 12;
inline constexpr std::size_t kMaxStoreRequestBytes =
    kStoreRequestHeaderBytes + kMaxStoreKeyBytes + kMaxStoreValueBytes;

/// `key` and `value` within the store's bounds.
std::string encode_request(StoreOperation operation, std::uint32_t id, std::string_view key,
                           std::string_view value);
Result<StoreRequestHeader> decode_request_header(std::string_view bytes);
std::string encode_reply(std::uint32_t id, bool found, StatusCode code, std::string_view body);
Result<StoreReplyHeader> decode_reply_header(std::string_view bytes);

/// The value of an add request and of its reply.
std::string encode_count(std::int64_t count);
Result<std::int64_t> decode_count(std::string_view bytes);

}  // namespace slipring::engine
