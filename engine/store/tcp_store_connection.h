// One connection of a tcp store server: how far it has come, and what is on its way in and out.
//
// Holds at most one request and one reply. Owned and used by the server's thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "engine/store/tcp_frame.h"
#include "slipring/status.h"

namespace slipring::engine {

/// hello and proof: a stranger until shown otherwise. serving: a rank of the job.
enum class ConnectionPhase { hello, proof, serving };

struct PendingGet {
  std::string key;
  std::uint32_t id = 0;
};

struct StoreConnection {
  base::FileDescriptor socket;
  ConnectionPhase phase = ConnectionPhase::hello;
  base::Deadline silence_deadline = base::Deadline::never();
  StoreHello hello;
  StoreWelcome welcome;
  std::string inbox;   // at most one request
  std::string outbox;  // at most one reply; nothing is read while it is not empty
  std::optional<PendingGet> pending;
  bool finished = false;  // swept at the end of the turn
};

/// Bytes that the connection must have sent before there is something to act on; bad for a header out of
/// bounds.
Result<std::size_t> wanted_bytes(const StoreConnection& connection);

/// Sends what the socket takes of the outbox. False once the connection cannot be written to any more.
bool flush(StoreConnection& connection);

}  // namespace slipring::engine
