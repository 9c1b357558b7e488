// Store: the key-value rendezvous that the ranks of one job use while they start up.
//
// Keys hold 1 to 255 bytes, values up to 1 MiB; anything longer is refused before it is sent. A key is
// written once or overwritten by set(); what a rank has set, every rank sees. One Store object belongs to one
// rank; calls from several threads are safe but take turns, so a get() that waits holds up the others on that
// object. Every wait is bounded: get() by its deadline, all other calls by kStoreAnswerTimeout. Failure:
// timeout names the key, peer_lost means that the store's host is gone; the object stays unusable after
// peer_lost.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "slipring/status.h"

namespace slipring::engine {

inline constexpr std::size_t kMaxStoreKeyBytes = 255;
inline constexpr std::size_t kMaxStoreValueBytes = std::size_t{1} << 20;
/// Longest wait of the calls that need no other rank: the store answers these at once or is broken.
inline constexpr std::chrono::seconds kStoreAnswerTimeout{30};

class Store {
 public:
  virtual ~Store() = default;

  virtual Status set(std::string_view key, std::string_view value) = 0;
  /// Waits until some rank has set `key`. A deadline that has passed still asks once.
  virtual Result<std::string> get(std::string_view key, const base::Deadline& deadline) = 0;
  /// The value if the key is set now; never waits for another rank.
  virtual Result<std::optional<std::string>> try_get(std::string_view key) = 0;
  /// Sets `key` only if it is not set yet, and returns the value that it has afterwards: the caller's own if
  /// the claim succeeded. Of any number of ranks that claim at the same time exactly one succeeds.
  virtual Result<std::string> claim(std::string_view key, std::string_view value) = 0;
  /// Adds to a decimal counter, absent being 0, and returns the sum; atomic across ranks.
  virtual Result<std::int64_t> add(std::string_view key, std::int64_t delta) = 0;
  /// Forgets `key`; ok too if it was not set.
  virtual Status remove(std::string_view key) = 0;

  /// Where this store is, for error texts: a url, or "memory".
  virtual const std::string& url() const noexcept = 0;
};

/// Opens the store at `url`:
///   tcp://HOST:PORT    HOST an IPv4 address, an [IPv6] address or a name; e.g. tcp://127.0.0.1:29500,
///   tcp://[::1]:29500 file:///DIRECTORY  a directory that every rank reaches under the same path; e.g.
///   file:///tmp/my-job
/// Retries until the store is there or the deadline passes; a store of another job is refused at once.
/// `job_token` is the secret that the ranks of one job share; it is proved, never sent.
Result<std::shared_ptr<Store>> open_store(std::string_view url, std::string_view job_token,
                                          const base::Deadline& deadline);

/// A store for ranks that are threads of this process: share the object.
std::shared_ptr<Store> make_memory_store();

/// ok, or what is wrong with the key or value; every implementation checks with these before it does
/// anything.
Status check_store_key(std::string_view key);
Status check_store_value(std::string_view key, std::string_view value);

}  // namespace slipring::engine
