#include "engine/store/tcp_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <future>
#include <thread>

#include "base/status.h"

namespace slipring::engine {
namespace {

// One poll at most this long, so that a deadline of "never" still has an argument for poll().
constexpr int kPollSliceMs = 1000;

Status wait_until_ready(int fd, short events, const base::Deadline& deadline) {
  for (;;) {
    pollfd entry{fd, events, 0};
    const int ready = poll(&entry, 1, deadline.left_ms(kPollSliceMs));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return base::errno_error(errno, "poll");
    if (deadline.passed()) return base::error(StatusCode::timeout, "no answer before the deadline");
  }
}

struct Lookup {
  int problem = 0;
  int error_number = 0;
  std::vector<SocketAddress> addresses;
};

Lookup look_up(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* list = nullptr;
  Lookup lookup;
  lookup.problem = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  lookup.error_number = errno;
  if (lookup.problem != 0) return lookup;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    SocketAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.bytes = entry->ai_addrlen;
    lookup.addresses.push_back(address);
  }
  freeaddrinfo(list);
  return lookup;
}

bool is_lost_connection(int error_number) {
  return error_number == ECONNRESET || error_number == EPIPE || error_number == ETIMEDOUT ||
         error_number == EHOSTUNREACH || error_number == ENETUNREACH || error_number == ECONNABORTED;
}

Status transfer_error(int error_number, std::string_view call) {
  if (!is_lost_connection(error_number)) return base::errno_error(error_number, call);
  return base::error(StatusCode::peer_lost, "{}: {} (errno {})", call,
                     std::generic_category().message(error_number), error_number);
}

}  // namespace

std::string format_host_port(std::string_view host, std::uint16_t port) {
  const bool is_v6 = host.find(':') != std::string_view::npos;
  return is_v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port,
                                           const base::Deadline& deadline) {
  Lookup lookup = look_up(host, port, AI_NUMERICHOST);
  if (lookup.problem == EAI_NONAME) {
    std::packaged_task<Lookup()> task([host, port] { return look_up(host, port, 0); });
    std::future<Lookup> answer = task.get_future();
    try {
      std::thread(std::move(task)).detach();
    } catch (const std::system_error& failure) {
      return base::error(StatusCode::system_error, "look-up of host {}: no thread: {}", host, failure.what());
    }
    while (answer.wait_for(std::chrono::milliseconds(deadline.left_ms(kPollSliceMs))) !=
           std::future_status::ready) {
      if (deadline.passed()) {
        return base::error(StatusCode::timeout,
                           "look-up of host {}: no answer before the deadline; use its address", host);
      }
    }
    lookup = answer.get();
  }
  if (lookup.problem == EAI_SYSTEM) {
    return base::errno_error(lookup.error_number, fmt::format("look-up of host {}", host));
  }
  if (lookup.problem != 0 || lookup.addresses.empty()) {
    return base::error(StatusCode::unavailable, "look-up of host {}: {}; use its address", host,
                       lookup.problem == 0 ? "no IPv4 or IPv6 address" : gai_strerror(lookup.problem));
  }
  return std::move(lookup.addresses);
}

void set_connection_options(int fd) noexcept {
  const int on = 1;
  const int idle_s = 10;
  const int interval_s = 5;
  const int probes = 4;
  const unsigned int user_timeout_ms = 30000;
  // Best effort: the store works without each of them, slower or slower to notice a vanished host.
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof(user_timeout_ms));
}

Result<base::FileDescriptor> connect_socket(const SocketAddress& address, const base::Deadline& deadline) {
  base::FileDescriptor fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return base::errno_error(errno, "socket");
  set_connection_options(fd.get());
  // An interrupted connect goes on in the background, exactly like one in progress.
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.bytes) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return base::errno_error(errno, "connect");
    if (Status status = wait_until_ready(fd.get(), POLLOUT, deadline); !status) {
      return std::move(status).with("connect");
    }
    int problem = 0;
    socklen_t bytes = sizeof(problem);
    if (getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &problem, &bytes) != 0) problem = errno;
    if (problem != 0) return base::errno_error(problem, "connect");
  }
  // A connect to a free local port can meet itself (simultaneous open); that is nobody.
  sockaddr_storage own{};
  sockaddr_storage other{};
  socklen_t own_bytes = sizeof(own);
  socklen_t other_bytes = sizeof(other);
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &own_bytes) == 0 &&
      getpeername(fd.get(), reinterpret_cast<sockaddr*>(&other), &other_bytes) == 0 &&
      own_bytes == other_bytes && std::memcmp(&own, &other, own_bytes) == 0) {
    return base::errno_error(ECONNREFUSED, "connect");
  }
  return fd;
}

Status send_bytes(int fd, std::string_view bytes, const base::Deadline& deadline) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      if (Status status = wait_until_ready(fd, POLLOUT, deadline); !status) return status;
    } else if (errno != EINTR) {
      return transfer_error(errno, "send");
    }
  }
  return {};
}

Status receive_bytes(int fd, char* bytes, std::size_t count, const base::Deadline& deadline) {
  while (count > 0) {
    const ssize_t n = recv(fd, bytes, count, 0);
    if (n > 0) {
      bytes += n;
      count -= static_cast<std::size_t>(n);
    } else if (n == 0) {
      return base::error(StatusCode::closed, "connection closed by the other side");
    } else if (errno == EAGAIN) {
      if (Status status = wait_until_ready(fd, POLLIN, deadline); !status) return status;
    } else if (errno != EINTR) {
      return transfer_error(errno, "recv");
    }
  }
  return {};
}

}  // namespace slipring::engine
