// Client of a TcpStoreServer: one authenticated connection. See store.h for the contract.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "engine/store/store.h"
#include "slipring/status.h"

namespace slipring::engine {

/// Retries until a server is there, proves the token and has been proved to, or the deadline passes. A server
/// of another job or protocol version is an error at once.
Result<std::shared_ptr<Store>> connect_tcp_store(const std::string& host, std::uint16_t port,
                                                 std::string job_token, const base::Deadline& deadline);

}  // namespace slipring::engine
