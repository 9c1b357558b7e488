#include "engine/store/tcp_store_connection.h"

#include <sys/socket.h>

#include <cerrno>

namespace slipring::engine {

Result<std::size_t> wanted_bytes(const StoreConnection& connection) {
  switch (connection.phase) {
    case ConnectionPhase::hello:
      return kStoreHelloBytes;
    case ConnectionPhase::proof:
      return kStoreProofBytes;
    case ConnectionPhase::serving:
      break;
  }
  if (connection.inbox.size() < kStoreRequestHeaderBytes) return kStoreRequestHeaderBytes;
  Result<StoreRequestHeader> header =
      decode_request_header(std::string_view(connection.inbox).substr(0, kStoreRequestHeaderBytes));
  if (!header) return std::move(header).status();
  return kStoreRequestHeaderBytes + header->key_bytes + header->value_bytes;
}

bool flush(StoreConnection& connection) {
  while (!connection.outbox.empty()) {
    const ssize_t n =
        send(connection.socket.get(), connection.outbox.data(), connection.outbox.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      connection.outbox.erase(0, static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      return true;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace slipring::engine
