// The tcp store among strangers, impostors and deaths: who is let in, who is dropped, and who is told what.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <random>
#include <thread>
#include <vector>

#include "engine/store/gather_all.h"
#include "engine/store/job_token.h"
#include "engine/store/tcp_frame.h"
#include "engine/store/tcp_socket.h"
#include "engine/store/tcp_store_server.h"
#include "store_places.h"

namespace slipring::engine {
namespace {

using std::chrono::milliseconds;

constexpr char kToken[] = "the token of this test";

std::unique_ptr<TcpStoreServer> start_server(TcpStoreServerOptions options = {}) {
  if (options.job_token.empty()) options.job_token = kToken;
  Result<std::unique_ptr<TcpStoreServer>> server = TcpStoreServer::start(std::move(options));
  EXPECT_TRUE(server) << server.status().to_string();
  return server ? std::move(*server) : nullptr;
}

std::shared_ptr<Store> open_or_fail(const std::string& url, const std::string& token = kToken) {
  Result<std::shared_ptr<Store>> store = open_store(url, token, patience());
  EXPECT_TRUE(store) << store.status().to_string();
  return store ? *store : nullptr;
}

// A connection that says whatever the test wants.
class RawConnection {
 public:
  explicit RawConnection(std::uint16_t port) {
    Result<std::vector<SocketAddress>> addresses = resolve("127.0.0.1", port, patience());
    Result<base::FileDescriptor> socket = connect_socket(addresses->front(), patience());
    if (socket) socket_ = std::move(*socket);
  }
  /// False once the server has closed the connection.
  bool send(std::string_view bytes) { return send_bytes(socket_.get(), bytes, patience()).is_ok(); }
  std::optional<std::string> receive(std::size_t count) {
    std::string bytes(count, '\0');
    if (!receive_bytes(socket_.get(), bytes.data(), count, patience())) return std::nullopt;
    return bytes;
  }
  /// Waits, bounded, until the server closes; whatever it still says is read and forgotten.
  bool is_dropped() {
    char bytes[4096];
    const base::Deadline deadline = patience();
    while (!deadline.passed()) {
      pollfd entry{socket_.get(), POLLIN, 0};
      if (poll(&entry, 1, 1000) <= 0) continue;
      const ssize_t n = recv(socket_.get(), bytes, sizeof(bytes), 0);
      if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return true;
    }
    return false;
  }
  /// Opens as an honest client does. False if dropped on the way.
  bool shake_hands(const std::string& token = kToken) {
    hello.nonce = job_nonce(token).value();
    EXPECT_TRUE(fill_random(hello.challenge));
    if (!send(encode_hello(hello))) return false;
    const std::optional<std::string> answer = receive(kStoreWelcomeBytes);
    if (!answer) return false;
    welcome = decode_welcome(*answer).value();
    const Proof proof = prove_side(StoreSide::client, token, hello, welcome).value();
    sent_proof.assign(proof.begin(), proof.end());
    return send(sent_proof) && receive(kStoreProofBytes).has_value();
  }

  StoreHello hello;
  StoreWelcome welcome;
  std::string sent_proof;

 private:
  base::FileDescriptor socket_;
};

// Starts the ranks of a job that is to form whatever else happens on the port.
class Job {
 public:
  Job(const std::string& url, int size, const std::string& token = kToken) {
    for (int rank = 0; rank < size; ++rank) {
      threads_.emplace_back([this, url, token, rank, size] {
        for (int round = 0; round < 20; ++round) {
          const auto store = open_or_fail(url, token);
          if (store == nullptr) return;
          const auto values = gather_all(*store, "round" + std::to_string(round), rank, size,
                                         std::to_string(rank), patience());
          EXPECT_TRUE(values) << values.status().to_string();
          if (!values || values.value().back() != std::to_string(size - 1)) return;
        }
        ++formed_;
      });
    }
  }
  int join() {
    threads_.clear();
    return formed_;
  }

 private:
  std::atomic<int> formed_{0};
  std::vector<std::jthread> threads_;
};

bool wait_for_drops(const TcpStoreServer& server, std::uint64_t count) {
  const base::Deadline deadline = patience();
  while (server.dropped_connections() < count && !deadline.passed())
    std::this_thread::sleep_for(milliseconds(5));
  return server.dropped_connections() >= count;
}

TEST(TcpStore, TwoJobsSideBySideDoNotSeeEachOther) {
  const auto one = start_server({.job_token = "token of job one"});
  const auto two = start_server({.job_token = "token of job two"});
  Job first(one->url(), 3, "token of job one");
  Job second(two->url(), 3, "token of job two");
  EXPECT_EQ(first.join(), 3);
  EXPECT_EQ(second.join(), 3);
  EXPECT_EQ(one->dropped_connections(), 0u);
  EXPECT_EQ(two->dropped_connections(), 0u);
}

TEST(TcpStore, ARankOfAnotherJobIsToldSoAtOnce) {
  const auto server = start_server();
  const auto refused = open_store(server->url(), "another token", patience());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.status().code(), StatusCode::mismatch);
  EXPECT_NE(refused.status().message().find("job tokens differ"), std::string::npos)
      << refused.status().message();
  EXPECT_NE(refused.status().message().find(server->url()), std::string::npos);
  EXPECT_TRUE(wait_for_drops(*server, 1));
}

TEST(TcpStore, AnotherProtocolVersionIsToldSo) {
  const auto server = start_server();
  RawConnection future(server->port());
  future.hello.version = kStoreProtocolVersion + 1;
  future.hello.nonce = job_nonce(kToken).value();
  ASSERT_TRUE(future.send(encode_hello(future.hello)));
  const auto answer = future.receive(kStoreWelcomeBytes);
  ASSERT_TRUE(answer);
  EXPECT_EQ(decode_welcome(*answer).value().verdict, StoreVerdict::other_version);
  EXPECT_TRUE(future.is_dropped());
}

TEST(TcpStore, ARightNonceWithAWrongProofIsDropped) {
  const auto server = start_server();
  RawConnection impostor(server->port());
  impostor.hello.nonce = job_nonce(kToken).value();  // the nonce has been on the wire: anybody can know it
  ASSERT_TRUE(impostor.send(encode_hello(impostor.hello)));
  ASSERT_TRUE(impostor.receive(kStoreWelcomeBytes));
  impostor.send(std::string(kStoreProofBytes, 'p'));
  EXPECT_FALSE(impostor.receive(1));
  EXPECT_TRUE(wait_for_drops(*server, 1));
}

TEST(TcpStore, AReplayedHandshakeIsDropped) {
  const auto server = start_server();
  RawConnection honest(server->port());
  ASSERT_TRUE(honest.shake_hands());
  RawConnection replay(server->port());
  ASSERT_TRUE(replay.send(encode_hello(honest.hello)));
  ASSERT_TRUE(replay.receive(kStoreWelcomeBytes));
  replay.send(honest.sent_proof);
  EXPECT_FALSE(replay.receive(1));
  EXPECT_TRUE(wait_for_drops(*server, 1));
}

TEST(TcpStore, TheTokenIsNeverOnTheWire) {
  const auto server = start_server();
  RawConnection honest(server->port());
  ASSERT_TRUE(honest.shake_hands());
  for (const std::string& sent :
       {encode_hello(honest.hello), honest.sent_proof, encode_welcome(honest.welcome)}) {
    EXPECT_EQ(sent.find(std::string_view(kToken).substr(0, 6)), std::string::npos);
  }
}

// Listens where a store should be, and reflects the client's own proof for want of the token.
TEST(TcpStore, AServerThatDoesNotKnowTheTokenIsRefused) {
  base::FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), bytes), 0);
  ASSERT_EQ(listen(listener.get(), 8), 0);
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  std::jthread impostor([&listener] {
    base::FileDescriptor connection(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    std::string hello(kStoreHelloBytes, '\0');
    std::string proof(kStoreProofBytes, '\0');
    EXPECT_TRUE(receive_bytes(connection.get(), hello.data(), hello.size(), patience()));
    EXPECT_TRUE(send_bytes(connection.get(), encode_welcome({}), patience()));
    EXPECT_TRUE(receive_bytes(connection.get(), proof.data(), proof.size(), patience()));
    EXPECT_TRUE(send_bytes(connection.get(), proof, patience()));
  });
  const auto refused =
      open_store("tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port)), kToken, patience());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.status().code(), StatusCode::corrupt);
  EXPECT_NE(refused.status().message().find("did not prove the job token"), std::string::npos);
}

TEST(TcpStore, StrangersAreDroppedAndCountedWhileTheJobForms) {
  const auto server = start_server({.silence_limit = milliseconds(200)});
  Job job(server->url(), 4);
  RawConnection scanner(server->port());
  RawConnection silent(server->port());
  RawConnection http(server->port());
  RawConnection half_hello(server->port());
  RawConnection zeros(server->port());
  { const RawConnection connects_and_leaves(server->port()); }
  http.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  half_hello.send(encode_hello({}).substr(0, 17));
  zeros.send(std::string(1000, '\0'));
  for (RawConnection* stranger : {&scanner, &silent, &http, &half_hello, &zeros})
    EXPECT_TRUE(stranger->is_dropped());
  EXPECT_EQ(job.join(), 4);
  EXPECT_TRUE(wait_for_drops(*server, 6));
}

TEST(TcpStore, ThousandsOfMutatedConversationsHarmNobody) {
  const unsigned seed = std::random_device{}();
  RecordProperty("seed", std::to_string(seed));
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto pick = [&random](std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
  };
  const auto mutate = [&](std::string bytes) {
    switch (pick(5)) {
      case 0:
        bytes[pick(bytes.size())] ^= static_cast<char>(1 << pick(8));
        break;
      case 1:
        bytes.resize(pick(bytes.size()));
        break;
      case 2:
        bytes.insert(pick(bytes.size()), std::string(1 + pick(64), static_cast<char>(pick(256))));
        break;
      case 3:
        for (std::size_t i = pick(8) + 1; i > 0; --i)
          bytes[pick(bytes.size())] = static_cast<char>(pick(256));
        break;
      default:
        break;
    }
    return bytes;
  };
  const auto server = start_server({.silence_limit = milliseconds(300)});
  const auto witness = open_or_fail(server->url());
  ASSERT_TRUE(witness->set("witness", "untouched"));
  Job job(server->url(), 4);
  const std::vector<std::string> requests{encode_request(StoreOperation::set, 1, "s", "value"),
                                          encode_request(StoreOperation::get, 2, "s", ""),
                                          encode_request(StoreOperation::try_get, 3, "s", ""),
                                          encode_request(StoreOperation::claim, 4, "s", "v"),
                                          encode_request(StoreOperation::add, 5, "n", encode_count(1)),
                                          encode_request(StoreOperation::remove, 6, "n", "")};
  for (int i = 0; i < 3000; ++i) {
    RawConnection stranger(server->port());
    if (i % 3 == 0) {
      stranger.hello.nonce = job_nonce(kToken).value();
      stranger.send(mutate(encode_hello(stranger.hello) + std::string(kStoreProofBytes, 'p')));
      continue;
    }
    // Somebody who knows the token and then talks nonsense is bounded too.
    if (!stranger.shake_hands()) continue;
    for (std::size_t n = pick(4) + 1; n > 0; --n) {
      if (!stranger.send(mutate(requests[pick(requests.size())]))) break;
    }
  }
  EXPECT_EQ(job.join(), 4);
  EXPECT_EQ(witness->get("witness", patience()).value(), "untouched");
  EXPECT_GT(server->dropped_connections(), 1000u);
}

TEST(TcpStore, ARequestAboveTheBoundsIsDroppedBeforeItIsHeld) {
  const auto server = start_server();
  RawConnection rank(server->port());
  ASSERT_TRUE(rank.shake_hands());
  std::string header = encode_request(StoreOperation::set, 1, "key", "");
  header[2] = 0x10;  // value bytes: 1 MiB
  header[0] = 1;     // and one more
  rank.send(header);
  EXPECT_TRUE(rank.is_dropped());
  EXPECT_TRUE(wait_for_drops(*server, 1));
}

TEST(TcpStore, ARankThatDiesInTheMiddleOfARequestLeavesNoTrace) {
  const auto server = start_server();
  {
    RawConnection rank(server->port());
    ASSERT_TRUE(rank.shake_hands());
    ASSERT_TRUE(
        rank.send(encode_request(StoreOperation::set, 1, "key", std::string(1000, 'v')).substr(0, 500)));
  }
  EXPECT_TRUE(wait_for_drops(*server, 1));
  EXPECT_FALSE(open_or_fail(server->url())->try_get("key").value().has_value());
}

TEST(TcpStore, ARequestInSinglesBytesIsUnderstood) {
  const auto server = start_server();
  RawConnection rank(server->port());
  ASSERT_TRUE(rank.shake_hands());
  for (const char byte : encode_request(StoreOperation::set, 1, "key", "value"))
    ASSERT_TRUE(rank.send({&byte, 1}));
  ASSERT_TRUE(rank.receive(kStoreReplyHeaderBytes));
  EXPECT_EQ(open_or_fail(server->url())->get("key", patience()).value(), "value");
}

TEST(TcpStore, MoreSilentStrangersThanThereIsRoomForDoNotKeepTheJobOut) {
  const auto server =
      start_server({.max_unproven_connections = 8, .silence_limit = std::chrono::minutes(10)});
  std::vector<RawConnection> crowd;
  for (int i = 0; i < 100; ++i) crowd.emplace_back(server->port());
  Job job(server->url(), 4);
  EXPECT_EQ(job.join(), 4);
  EXPECT_GE(server->dropped_connections(), 92u);
}

TEST(TcpStore, RanksBeyondTheConnectionLimitGetInOnceOthersHaveLeft) {
  const auto server = start_server({.max_connections = 2});
  auto first = open_or_fail(server->url());
  auto second = open_or_fail(server->url());
  const auto third = open_store(server->url(), kToken, base::Deadline::after_ms(100));
  ASSERT_FALSE(third);
  EXPECT_EQ(third.status().code(), StatusCode::timeout);
  first.reset();
  EXPECT_NE(open_or_fail(server->url()), nullptr);
}

TEST(TcpStore, AFullStoreSaysSoAndGoesOn) {
  const auto server = start_server({.max_stored_bytes = 10000});
  const auto store = open_or_fail(server->url());
  const Status full = store->set("big", std::string(20000, 'v'));
  EXPECT_EQ(full.code(), StatusCode::out_of_memory);
  EXPECT_NE(full.message().find("needed"), std::string::npos);
  EXPECT_TRUE(store->set("small", std::string(9000, 'v')));
  EXPECT_TRUE(store->set("small", std::string(9500, 'v')));
  EXPECT_EQ(store->set("another", std::string(500, 'v')).code(), StatusCode::out_of_memory);
  EXPECT_TRUE(store->remove("small"));
  EXPECT_TRUE(store->set("another", std::string(500, 'v')));
}

TEST(TcpStore, AServerThatEndsIsNoticedInTheMiddleOfAWait) {
  auto server = start_server();
  const auto store = open_or_fail(server->url());
  std::jthread end([&server] {
    std::this_thread::sleep_for(milliseconds(50));
    server.reset();
  });
  const auto value = store->get("key", patience());
  ASSERT_FALSE(value);
  EXPECT_EQ(value.status().code(), StatusCode::peer_lost) << value.status().message();
  EXPECT_NE(value.status().message().find(store->url()), std::string::npos);
  // Also later, without SIGPIPE: its default action would end this test.
  EXPECT_EQ(store->set("key", std::string(1 << 20, 'v')).code(), StatusCode::peer_lost);
  EXPECT_EQ(store->add("key", 1).status().code(), StatusCode::peer_lost);
}

TEST(TcpStore, ARequestToAServerThatIsGoneIsPeerLostNotSigpipe) {
  auto server = start_server();
  const auto store = open_or_fail(server->url());
  server.reset();
  EXPECT_EQ(store->set("key", std::string(1 << 20, 'v')).code(), StatusCode::peer_lost);
}

TEST(TcpStore, NobodyThereIsAnErrorWithPlaceCauseAndRemedy) {
  std::string url;
  { url = start_server()->url(); }
  const auto store = open_store(url, kToken, base::Deadline::after_ms(50));
  ASSERT_FALSE(store);
  EXPECT_EQ(store.status().code(), StatusCode::timeout);
  for (const char* part : {url.c_str(), "Connection refused", "still running"}) {
    EXPECT_NE(store.status().message().find(part), std::string::npos) << store.status().message();
  }
}

TEST(TcpStore, RanksThatComeBeforeTheServerWaitForIt) {
  std::uint16_t port = 0;
  { port = start_server()->port(); }
  std::unique_ptr<TcpStoreServer> server;
  std::jthread late([&server, port] {
    std::this_thread::sleep_for(milliseconds(100));
    server = start_server({.port = port});
  });
  EXPECT_NE(open_or_fail("tcp://127.0.0.1:" + std::to_string(port)), nullptr);
}

TEST(TcpStore, SomethingThatIsNoStoreIsNamedAsThat) {
  base::FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), bytes), 0);
  ASSERT_EQ(listen(listener.get(), 8), 0);
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &bytes), 0);
  std::jthread web_server([&listener] {
    base::FileDescriptor connection(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    EXPECT_TRUE(
        send_bytes(connection.get(), "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", patience()));
    char byte;
    // Until the client leaves.
    while (receive_bytes(connection.get(), &byte, 1, patience())) {
    }
  });
  const auto store =
      open_store("tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port)), kToken, patience());
  ASSERT_FALSE(store);
  EXPECT_NE(store.status().message().find("something else than a slipring store"), std::string::npos)
      << store.status().message();
}

TEST(TcpStore, TakesHostNames) {
  const auto server = start_server();
  EXPECT_NE(open_or_fail("tcp://localhost:" + std::to_string(server->port())), nullptr);
  const auto store = open_store("tcp://no-such-host.invalid:1", kToken, base::Deadline::after_ms(10000));
  ASSERT_FALSE(store);
  EXPECT_NE(store.status().message().find("no-such-host.invalid"), std::string::npos);
}

TEST(TcpStore, MeetsOverIPv6) {
  base::FileDescriptor probe(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  if (!probe || bind(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    GTEST_SKIP() << "this host has no IPv6 loopback address";
  }
  const auto server = start_server({.host = "::1"});
  EXPECT_TRUE(server->url().starts_with("tcp://[::1]:")) << server->url();
  Job job(server->url(), 3);
  EXPECT_EQ(job.join(), 3);
}

TEST(TcpStore, APortThatIsTakenIsAnErrorThatNamesIt) {
  const auto server = start_server();
  const auto second = TcpStoreServer::start({.port = server->port(), .job_token = kToken});
  ASSERT_FALSE(second);
  EXPECT_NE(second.status().message().find(std::to_string(server->port())), std::string::npos);
  EXPECT_NE(second.status().message().find("Address already in use"), std::string::npos);
}

std::size_t open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

TEST(TcpStore, OpeningAndClosingLeavesNoDescriptor) {
  const std::size_t before = open_files();
  {
    const auto server = start_server();
    for (int i = 0; i < 500; ++i) ASSERT_TRUE(open_or_fail(server->url())->set("key", "value"));
  }
  EXPECT_EQ(open_files(), before);
}

TEST(StoreUrl, HasOneGrammarAndErrorsShowAnExample) {
  for (const char* url : {"",
                          "tcp",
                          "tcp://",
                          "tcp://host",
                          "tcp://:1",
                          "tcp://host:",
                          "tcp://host:0",
                          "tcp://host:65536",
                          "tcp://host:12x",
                          "tcp://host:-1",
                          "tcp://::1:80",
                          "tcp://[::1]",
                          "tcp://[::1]80",
                          "tcp://[]:80",
                          "file://",
                          "file://relative/path",
                          "file:/tmp",
                          "/tmp/x",
                          "TCP://127.0.0.1:80",
                          "udp://127.0.0.1:80",
                          "memory",
                          " tcp://127.0.0.1:80",
                          "tcp://127.0.0.1:80/"}) {
    const auto store = open_store(url, kToken, base::Deadline::after_ms(0));
    ASSERT_FALSE(store) << url;
    EXPECT_EQ(store.status().code(), StatusCode::invalid_argument) << url;
    EXPECT_NE(store.status().message().find("tcp://127.0.0.1:29500"), std::string::npos)
        << store.status().message();
  }
}

TEST(JobToken, AnEmptyOrOversizeOneIsRefused) {
  const auto server = start_server();
  for (const std::string& token : {std::string(), std::string(kMaxJobTokenBytes + 1, 't')}) {
    EXPECT_EQ(open_store(server->url(), token, patience()).status().code(), StatusCode::invalid_argument);
    EXPECT_EQ(TcpStoreServer::start({.job_token = token}).status().code(), StatusCode::invalid_argument);
  }
}

}  // namespace
}  // namespace slipring::engine
