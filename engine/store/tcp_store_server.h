// TcpStoreServer: hosts a job's tcp store on one thread of this process.
//
// Serves only connections that prove knowledge of the job token; whoever does not within `silence_limit`
// (port scanner, HTTP request, random bytes, silence) is dropped and counted, and the job goes on. Memory is
// bounded per connection (one request and one reply) and in total. Authenticates, does not encrypt: the
// network between the ranks must be trusted not to alter packets. The owner may call any member from any
// thread; the destructor stops the thread and closes everything, which waiting clients see as peer_lost.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "slipring/status.h"

namespace slipring::engine {

struct TcpStoreServerOptions {
  std::string host = "127.0.0.1";  ///< numeric IPv4 or IPv6 address to listen on
  std::uint16_t port = 0;          ///< 0: the kernel chooses
  std::string job_token = {};
  std::size_t max_connections = 4096;          ///< that have proved the token
  std::size_t max_unproven_connections = 128;  ///< beyond it the oldest is dropped
  std::size_t max_stored_bytes = std::size_t{256} << 20;
  std::chrono::milliseconds silence_limit{5000};
};

class TcpStoreServer {
 public:
  static Result<std::unique_ptr<TcpStoreServer>> start(TcpStoreServerOptions options);
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  /// What open_store takes; of a wildcard address it is good on this host only.
  const std::string& url() const noexcept;
  std::uint16_t port() const noexcept;
  /// Connections dropped because they broke the protocol, stayed silent, or proved nothing.
  std::uint64_t dropped_connections() const noexcept;
  std::size_t connections() const noexcept;

 private:
  class Loop;
  explicit TcpStoreServer(std::unique_ptr<Loop> loop) noexcept;
  std::unique_ptr<Loop> loop_;
};

}  // namespace slipring::engine
