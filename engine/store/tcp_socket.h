// Sockets of the tcp store: addresses, and bounded connect, send and receive.
//
// All sockets are non-blocking, close-on-exec and never raise SIGPIPE; interrupted calls go on. Every wait
// ends by its deadline. Errors give the cause; the caller adds who and where.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/file_descriptor.h"
#include "slipring/status.h"

namespace slipring::engine {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
};

/// The addresses of a numeric host at once; a name is looked up on a thread of its own, so that a name server
/// that does not answer cannot outlast the deadline.
Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port,
                                           const base::Deadline& deadline);
/// "127.0.0.1:80" or "[::1]:80", with or without scheme added by the caller.
std::string format_host_port(std::string_view host, std::uint16_t port);

Result<base::FileDescriptor> connect_socket(const SocketAddress& address, const base::Deadline& deadline);
Status send_bytes(int fd, std::string_view bytes, const base::Deadline& deadline);
/// Exactly bytes.size() bytes; closed when the other side has closed.
Status receive_bytes(int fd, char* bytes, std::size_t count, const base::Deadline& deadline);

/// The process at the other end may vanish without a word (power, cable): bounded detection by the kernel.
void set_connection_options(int fd) noexcept;

}  // namespace slipring::engine
