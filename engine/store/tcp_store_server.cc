#include "engine/store/tcp_store_server.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <thread>
#include <vector>

#include "base/status.h"
#include "engine/store/job_token.h"
#include "engine/store/store_table.h"
#include "engine/store/tcp_frame.h"
#include "engine/store/tcp_socket.h"
#include "engine/store/tcp_store_connection.h"

namespace slipring::engine {
namespace {

using std::chrono::milliseconds;
using Connection = StoreConnection;
using Phase = ConnectionPhase;

constexpr int kAcceptsPerTurn = 64;
// Out of descriptors: let connections end before asking for more.
constexpr milliseconds kAcceptPause{100};
constexpr std::size_t kReadBytes = std::size_t{64} << 10;

}  // namespace

class TcpStoreServer::Loop {
 public:
  explicit Loop(TcpStoreServerOptions options)
      : options_(std::move(options)), table_(options_.max_stored_bytes) {}
  ~Loop() { stop(); }

  Status start();
  void stop();

  const std::string& url() const noexcept { return url_; }
  std::uint16_t port() const noexcept { return port_; }
  std::uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }
  std::size_t serving() const noexcept { return serving_.load(std::memory_order_relaxed); }

 private:
  Status listen_on(const SocketAddress& address);
  Status start_thread();

  // Everything below runs on the thread.
  void run();
  int poll_timeout_ms() const;
  void fill_poll_entries(std::vector<pollfd>& entries) const;
  void accept_all();
  bool drop_oldest_unproven();
  void drop_silent();
  void read_from(Connection& connection);
  void act(Connection& connection);
  void act_on_hello(Connection& connection);
  void act_on_proof(Connection& connection);
  void act_on_request(Connection& connection);
  void reply(Connection& connection, std::uint32_t id, bool found, const Status& status,
             std::string_view body);
  void answer_waiters(std::string_view key);
  void drop(Connection& connection);
  void sweep();

  const TcpStoreServerOptions options_;
  std::string url_;
  std::uint16_t port_ = 0;
  JobNonce nonce_{};
  base::FileDescriptor listener_;
  base::FileDescriptor wake_;
  std::thread thread_;
  // Set by stop(), read by the thread after wake_ has become readable; the eventfd orders the two.
  std::atomic<bool> stopping_{false};
  // Counters with one writer, the thread; readers want a recent value and nothing that it would order.
  std::atomic<std::uint64_t> dropped_{0};
  std::atomic<std::size_t> serving_{0};

  StoreTable table_;
  std::vector<std::unique_ptr<Connection>> connections_;  // in the order of their arrival
  base::Deadline accept_pause_ = base::Deadline::after(milliseconds(0));
};

Status TcpStoreServer::Loop::start() {
  Result<JobNonce> nonce = job_nonce(options_.job_token);
  if (!nonce) return std::move(nonce).status();
  nonce_ = *nonce;
  Result<std::vector<SocketAddress>> addresses =
      resolve(options_.host, options_.port, base::Deadline::after(std::chrono::seconds(5)));
  if (!addresses) return std::move(addresses).status();
  if (Status status = listen_on(addresses->front()); !status) {
    return std::move(status).with(fmt::format(
        "store server on {}; choose another port, or 0 for any that is free, and an address of this host",
        format_host_port(options_.host, options_.port)));
  }
  wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return base::errno_error(errno, "eventfd");
  return start_thread();
}

Status TcpStoreServer::Loop::listen_on(const SocketAddress& address) {
  listener_.reset(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener_) return base::errno_error(errno, "socket");
  const int on = 1;
  // A fixed port must not stay blocked by an earlier job's connections in TIME_WAIT.
  if (options_.port != 0) setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.bytes) != 0) {
    return base::errno_error(errno, "bind");
  }
  if (listen(listener_.get(), SOMAXCONN) != 0) return base::errno_error(errno, "listen");
  sockaddr_storage bound{};
  socklen_t bytes = sizeof(bound);
  if (getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&bound), &bytes) != 0) {
    return base::errno_error(errno, "getsockname");
  }
  port_ = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                            : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
  url_ = "tcp://" + format_host_port(options_.host, port_);
  return {};
}

Status TcpStoreServer::Loop::start_thread() {
  // The program's signals are for the program's threads; this one inherits a mask that blocks them all.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  Status status;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& failure) {
    status = base::error(StatusCode::system_error, "store server: no thread: {}", failure.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

void TcpStoreServer::Loop::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true, std::memory_order_release);  // pairs with the acquire in run()
  const std::uint64_t one = 1;
  while (write(wake_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
  thread_.join();
}

void TcpStoreServer::Loop::run() {
  std::vector<pollfd> entries;
  while (!stopping_.load(std::memory_order_acquire)) {  // pairs with the release in stop()
    fill_poll_entries(entries);
    if (poll(entries.data(), entries.size(), poll_timeout_ms()) < 0 && errno != EINTR) break;
    // Connections accepted in this turn have no poll entry yet: they come after those that have one.
    const std::size_t polled = entries.size() - 2;
    for (std::size_t i = 0; i < polled; ++i) {
      Connection& connection = *connections_[i];
      const short events = entries[i + 2].revents;
      if (connection.finished || events == 0) continue;
      if ((events & POLLOUT) != 0 && !flush(connection)) drop(connection);
      if (!connection.finished && (events & (POLLIN | POLLHUP | POLLERR)) != 0) read_from(connection);
    }
    if (entries[1].revents != 0) accept_all();
    drop_silent();
    sweep();
  }
  connections_.clear();
  listener_.reset();
}

void TcpStoreServer::Loop::fill_poll_entries(std::vector<pollfd>& entries) const {
  entries.clear();
  entries.push_back({wake_.get(), POLLIN, 0});
  entries.push_back({accept_pause_.passed() ? listener_.get() : -1, POLLIN, 0});
  for (const auto& connection : connections_) {
    const short events = connection->outbox.empty() ? POLLIN : POLLOUT;
    entries.push_back({connection->socket.get(), events, 0});
  }
}

int TcpStoreServer::Loop::poll_timeout_ms() const {
  int timeout_ms = -1;
  const auto cap = [&timeout_ms](const base::Deadline& deadline) {
    const int ms = deadline.left_ms(60000);
    if (timeout_ms < 0 || ms < timeout_ms) timeout_ms = ms;
  };
  if (!accept_pause_.passed()) cap(accept_pause_);
  for (const auto& connection : connections_) {
    if (connection->phase != Phase::serving) cap(connection->silence_deadline);
  }
  return timeout_ms;
}

void TcpStoreServer::Loop::accept_all() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    base::FileDescriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      const bool exhausted = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (exhausted && !drop_oldest_unproven()) accept_pause_ = base::Deadline::after(kAcceptPause);
      return;
    }
    set_connection_options(socket.get());
    const auto unproven = std::count_if(connections_.begin(), connections_.end(), [](const auto& connection) {
      return connection->phase != Phase::serving && !connection->finished;
    });
    if (static_cast<std::size_t>(unproven) >= options_.max_unproven_connections) drop_oldest_unproven();
    auto connection = std::make_unique<Connection>();
    connection->socket = std::move(socket);
    connection->silence_deadline = base::Deadline::after(options_.silence_limit);
    connections_.push_back(std::move(connection));
  }
}

bool TcpStoreServer::Loop::drop_oldest_unproven() {
  for (const auto& connection : connections_) {
    if (connection->phase == Phase::serving || connection->finished) continue;
    drop(*connection);
    return true;
  }
  return false;
}

void TcpStoreServer::Loop::drop_silent() {
  for (const auto& connection : connections_) {
    if (!connection->finished && connection->phase != Phase::serving &&
        connection->silence_deadline.passed()) {
      drop(*connection);
    }
  }
}

void TcpStoreServer::Loop::drop(Connection& connection) {
  connection.finished = true;
  connection.socket.reset();
  dropped_.fetch_add(1, std::memory_order_relaxed);
}

void TcpStoreServer::Loop::sweep() {
  std::erase_if(connections_, [](const auto& connection) { return connection->finished; });
  const auto serving = std::count_if(connections_.begin(), connections_.end(), [](const auto& connection) {
    return connection->phase == Phase::serving;
  });
  serving_.store(static_cast<std::size_t>(serving), std::memory_order_relaxed);
}

void TcpStoreServer::Loop::read_from(Connection& connection) {
  if (!connection.outbox.empty()) {
    // Not read while a reply is on its way; woken for an error or hang-up, which sending will report.
    if (!flush(connection)) drop(connection);
    return;
  }
  Result<std::size_t> wanted = wanted_bytes(connection);
  if (!wanted) return drop(connection);
  char bytes[kReadBytes];
  const std::size_t room = std::min(sizeof(bytes), *wanted - connection.inbox.size());
  const ssize_t n = recv(connection.socket.get(), bytes, room, 0);
  if (n < 0) {
    if (errno != EAGAIN && errno != EINTR) drop(connection);
    return;
  }
  if (n == 0) {
    // A rank that leaves between requests has done nothing wrong.
    if (connection.phase != Phase::serving || !connection.inbox.empty()) return drop(connection);
    connection.finished = true;
    return;
  }
  connection.inbox.append(bytes, static_cast<std::size_t>(n));
  wanted = wanted_bytes(connection);
  if (!wanted) return drop(connection);
  if (connection.phase == Phase::hello && !may_become_hello(connection.inbox)) return drop(connection);
  if (connection.inbox.size() == *wanted) act(connection);
}

void TcpStoreServer::Loop::act(Connection& connection) {
  switch (connection.phase) {
    case Phase::hello:
      act_on_hello(connection);
      break;
    case Phase::proof:
      act_on_proof(connection);
      break;
    case Phase::serving:
      act_on_request(connection);
      break;
  }
  if (connection.finished) return;
  connection.inbox.clear();
  if (!flush(connection)) drop(connection);
}

void TcpStoreServer::Loop::act_on_hello(Connection& connection) {
  Result<StoreHello> hello = decode_hello(connection.inbox);
  if (!hello) return drop(connection);
  connection.hello = *hello;
  if (hello->version != kStoreProtocolVersion) {
    connection.welcome.verdict = StoreVerdict::other_version;
  } else if (hello->nonce != nonce_) {
    connection.welcome.verdict = StoreVerdict::other_job;
  }
  if (!fill_random(connection.welcome.challenge)) return drop(connection);
  connection.outbox = encode_welcome(connection.welcome);
  connection.phase = Phase::proof;
  if (connection.welcome.verdict == StoreVerdict::welcome) return;
  // Told why, so that a rank with the wrong token need not guess; a first packet this small always fits.
  flush(connection);
  drop(connection);
}

void TcpStoreServer::Loop::act_on_proof(Connection& connection) {
  Proof theirs;
  std::copy(connection.inbox.begin(), connection.inbox.end(), theirs.begin());
  Result<Proof> expected =
      prove_side(StoreSide::client, options_.job_token, connection.hello, connection.welcome);
  if (!expected || !same_proof(theirs, *expected)) return drop(connection);
  Result<Proof> mine =
      prove_side(StoreSide::server, options_.job_token, connection.hello, connection.welcome);
  const auto serving = std::count_if(connections_.begin(), connections_.end(), [](const auto& other) {
    return other->phase == Phase::serving && !other->finished;
  });
  if (!mine || static_cast<std::size_t>(serving) >= options_.max_connections) return drop(connection);
  connection.outbox.assign(mine->begin(), mine->end());
  connection.phase = Phase::serving;
}

void TcpStoreServer::Loop::act_on_request(Connection& connection) {
  const std::string_view request = connection.inbox;
  Result<StoreRequestHeader> header = decode_request_header(request.substr(0, kStoreRequestHeaderBytes));
  if (!header) return drop(connection);
  const std::string key(request.substr(kStoreRequestHeaderBytes, header->key_bytes));
  const std::string_view value = request.substr(kStoreRequestHeaderBytes + header->key_bytes);
  connection.pending.reset();  // a new request gives up the get that still waits
  switch (header->operation) {
    case StoreOperation::set: {
      const Status status = table_.set(key, value);
      reply(connection, header->id, true, status, {});
      break;
    }
    case StoreOperation::claim: {
      const Result<std::string> present = table_.claim(key, value);
      reply(connection, header->id, true, present.status(), present ? present.value() : std::string());
      break;
    }
    case StoreOperation::add: {
      const Result<std::int64_t> delta = decode_count(value);
      const Result<std::int64_t> sum = delta ? table_.add(key, delta.value()) : delta;
      reply(connection, header->id, true, sum.status(), sum ? encode_count(sum.value()) : std::string());
      break;
    }
    case StoreOperation::remove:
      table_.remove(key);
      reply(connection, header->id, true, {}, {});
      break;
    case StoreOperation::get:
    case StoreOperation::try_get: {
      const std::string* present = table_.find(key);
      if (present == nullptr && header->operation == StoreOperation::get) {
        connection.pending = PendingGet{key, header->id};
      } else {
        reply(connection, header->id, present != nullptr, {}, present != nullptr ? *present : std::string());
      }
      return;
    }
  }
  answer_waiters(key);
}

void TcpStoreServer::Loop::reply(Connection& connection, std::uint32_t id, bool found, const Status& status,
                                 std::string_view body) {
  connection.outbox =
      encode_reply(id, found, status.code(), status.is_ok() ? body : std::string_view(status.message()));
}

void TcpStoreServer::Loop::answer_waiters(std::string_view key) {
  const std::string* value = table_.find(key);
  if (value == nullptr) return;
  for (const auto& connection : connections_) {
    if (connection->finished || !connection->pending || connection->pending->key != key) continue;
    reply(*connection, connection->pending->id, true, {}, *value);
    connection->pending.reset();
    if (!flush(*connection)) drop(*connection);
  }
}

TcpStoreServer::TcpStoreServer(std::unique_ptr<Loop> loop) noexcept : loop_(std::move(loop)) {}
TcpStoreServer::~TcpStoreServer() = default;

Result<std::unique_ptr<TcpStoreServer>> TcpStoreServer::start(TcpStoreServerOptions options) {
  auto loop = std::make_unique<Loop>(std::move(options));
  if (Status status = loop->start(); !status) return status;
  return std::unique_ptr<TcpStoreServer>(new TcpStoreServer(std::move(loop)));
}

const std::string& TcpStoreServer::url() const noexcept {
  return loop_->url();
}
std::uint16_t TcpStoreServer::port() const noexcept {
  return loop_->port();
}
std::uint64_t TcpStoreServer::dropped_connections() const noexcept {
  return loop_->dropped();
}
std::size_t TcpStoreServer::connections() const noexcept {
  return loop_->serving();
}

}  // namespace slipring::engine
