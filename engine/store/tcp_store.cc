#include "engine/store/tcp_store.h"

#include <poll.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/status.h"
#include "engine/store/job_token.h"
#include "engine/store/tcp_frame.h"
#include "engine/store/tcp_socket.h"

namespace slipring::engine {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstRetryPause{5};
constexpr milliseconds kLongestRetryPause{200};
// One attempt to open; what accepts and then says nothing is given up so that a later attempt can succeed.
constexpr milliseconds kAttemptLimit{5000};

base::Deadline sooner(const base::Deadline& a, const base::Deadline& b) {
  return a.left() < b.left() ? a : b;
}

class TcpStore final : public Store {
 public:
  TcpStore(std::string url, base::FileDescriptor socket) : url_(std::move(url)), socket_(std::move(socket)) {}

  Status set(std::string_view key, std::string_view value) override {
    if (Status status = check_store_value(key, value); !status) return status;
    return call(StoreOperation::set, key, value, answer_deadline()).status();
  }

  Result<std::string> get(std::string_view key, const base::Deadline& deadline) override {
    if (Status status = check_store_key(key); !status) return status;
    Result<Answer> answer = call(StoreOperation::get, key, {}, deadline);
    if (answer) return std::move(answer->body);
    if (answer.status().code() != StatusCode::timeout) return std::move(answer).status();
    // The deadline is about other ranks: a value that is there is handed over however late the caller asks.
    Result<std::optional<std::string>> last = try_get(key);
    if (!last) return std::move(last).status();
    if (last->has_value()) return std::move(**last);
    return base::error(StatusCode::timeout, "store key \"{}\" not set before the deadline; store {}", key,
                       url_);
  }

  Result<std::optional<std::string>> try_get(std::string_view key) override {
    if (Status status = check_store_key(key); !status) return status;
    Result<Answer> answer = call(StoreOperation::try_get, key, {}, answer_deadline());
    if (!answer) return std::move(answer).status();
    return answer->found ? std::optional<std::string>(std::move(answer->body)) : std::nullopt;
  }

  Result<std::string> claim(std::string_view key, std::string_view value) override {
    if (Status status = check_store_value(key, value); !status) return status;
    Result<Answer> answer = call(StoreOperation::claim, key, value, answer_deadline());
    if (!answer) return std::move(answer).status();
    return std::move(answer->body);
  }

  Result<std::int64_t> add(std::string_view key, std::int64_t delta) override {
    if (Status status = check_store_key(key); !status) return status;
    Result<Answer> answer = call(StoreOperation::add, key, encode_count(delta), answer_deadline());
    if (!answer) return std::move(answer).status();
    return decode_count(answer->body);
  }

  Status remove(std::string_view key) override {
    if (Status status = check_store_key(key); !status) return status;
    return call(StoreOperation::remove, key, {}, answer_deadline()).status();
  }

  const std::string& url() const noexcept override { return url_; }

 private:
  struct Answer {
    bool found = true;
    std::string body;
  };

  // Gives the connection to one caller at a time, each waiting no longer than its own deadline.
  class Turn {
   public:
    Turn(TcpStore& store, const base::Deadline& deadline) : store_(store) {
      std::unique_lock lock(store_.mutex_);
      while (store_.in_use_ && !deadline.passed()) {
        store_.turn_over_.wait_for(lock, milliseconds(deadline.left_ms(1000)));
      }
      taken_ = !store_.in_use_;
      if (taken_) store_.in_use_ = true;
    }
    ~Turn() {
      if (!taken_) return;
      const std::lock_guard lock(store_.mutex_);
      store_.in_use_ = false;
      store_.turn_over_.notify_one();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    bool taken() const noexcept { return taken_; }

   private:
    TcpStore& store_;
    bool taken_ = false;
  };

  static base::Deadline answer_deadline() { return base::Deadline::after(kStoreAnswerTimeout); }

  Result<Answer> call(StoreOperation operation, std::string_view key, std::string_view value,
                      const base::Deadline& deadline) {
    const Turn turn(*this, deadline);
    if (!turn.taken()) {
      return base::error(StatusCode::timeout, "store {}: another thread of this process uses the connection",
                         url_);
    }
    if (!broken_) return broken_;
    const std::uint32_t id = ++last_id_;
    // Half a request on the wire cannot be taken back, so sending has a limit of its own.
    Status sent = send_bytes(socket_.get(), encode_request(operation, id, key, value), answer_deadline());
    if (!sent) return lost(std::move(sent), key);
    return await_answer(operation, id, key, deadline);
  }

  Result<Answer> await_answer(StoreOperation operation, std::uint32_t id, std::string_view key,
                              const base::Deadline& deadline) {
    for (;;) {
      Result<std::optional<StoreReplyHeader>> header = buffered_reply();
      if (!header) return lost(std::move(header).status(), key);
      if (!header->has_value()) {
        Status received = receive_some(deadline);
        if (received.is_ok()) continue;
        if (received.code() != StatusCode::timeout) return lost(std::move(received), key);
        // A get may be late because of another rank; everything else is late because of the store.
        if (operation == StoreOperation::get) return received;
        return base::error(StatusCode::timeout,
                           "store {} did not answer within {} s; key \"{}\"; is its process stopped?", url_,
                           kStoreAnswerTimeout.count(), key);
      }
      std::string body = take_body(**header);
      if ((*header)->id != id) continue;  // the answer to a get that was given up
      if ((*header)->code != StatusCode::ok)
        return Status((*header)->code, std::move(body)).with("store " + url_);
      return Answer{(*header)->found, std::move(body)};
    }
  }

  /// The header of the reply at the front of the inbox if it has arrived completely.
  Result<std::optional<StoreReplyHeader>> buffered_reply() const {
    if (inbox_.size() < kStoreReplyHeaderBytes) return std::optional<StoreReplyHeader>();
    Result<StoreReplyHeader> header =
        decode_reply_header(std::string_view(inbox_).substr(0, kStoreReplyHeaderBytes));
    if (!header) return std::move(header).status();
    if (inbox_.size() < kStoreReplyHeaderBytes + header->body_bytes) return std::optional<StoreReplyHeader>();
    return std::optional<StoreReplyHeader>(*header);
  }

  std::string take_body(const StoreReplyHeader& header) {
    std::string body = inbox_.substr(kStoreReplyHeaderBytes, header.body_bytes);
    inbox_.erase(0, kStoreReplyHeaderBytes + header.body_bytes);
    return body;
  }

  // A partial reply stays in the inbox when the deadline passes, so that the next call goes on in step.
  Status receive_some(const base::Deadline& deadline) {
    char bytes[16384];
    if (Status status = receive_bytes(socket_.get(), bytes, 1, deadline); !status) return status;
    const ssize_t n = recv(socket_.get(), bytes + 1, sizeof(bytes) - 1, 0);
    inbox_.append(bytes, 1 + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    return {};
  }

  Status lost(Status cause, std::string_view key) {
    const StatusCode code = cause.code() == StatusCode::corrupt ? StatusCode::corrupt : StatusCode::peer_lost;
    broken_ = base::error(
        code,
        "store {} lost in a call about key \"{}\": {}; the process that hosts it has ended or its "
        "host is unreachable, look at its output",
        url_, key, cause.message());
    socket_.reset();
    return broken_;
  }

  const std::string url_;
  std::mutex mutex_;
  std::condition_variable turn_over_;
  bool in_use_ = false;
  // Below: of the caller whose turn it is.
  base::FileDescriptor socket_;
  std::uint32_t last_id_ = 0;
  std::string inbox_;
  Status broken_;
};

class Opening {
 public:
  Opening(std::string url, std::string job_token) : url_(std::move(url)), job_token_(std::move(job_token)) {}

  // `is_final` tells the failures that no retry can cure.
  Status attempt(const SocketAddress& address, const base::Deadline& deadline, base::FileDescriptor& socket,
                 bool& is_final) {
    is_final = false;
    Result<base::FileDescriptor> connected = connect_socket(address, deadline);
    if (!connected) return std::move(connected).status();
    socket = std::move(connected).value();
    return shake_hands(socket.get(), deadline, is_final);
  }

 private:
  Status shake_hands(int fd, const base::Deadline& deadline, bool& is_final) {
    StoreHello hello;
    Result<JobNonce> nonce = job_nonce(job_token_);
    if (!nonce) return std::move(nonce).status();
    hello.nonce = *nonce;
    if (Status status = fill_random(hello.challenge); !status) return status;
    if (Status status = send_bytes(fd, encode_hello(hello), deadline); !status) return status;

    char bytes[std::max(kStoreWelcomeBytes, kStoreProofBytes)];
    if (Status status = receive_bytes(fd, bytes, kStoreWelcomeBytes, deadline); !status) return status;
    Result<StoreWelcome> welcome = decode_welcome({bytes, kStoreWelcomeBytes});
    is_final = true;  // from here on the other side is known: it is our server, or it will never be
    if (!welcome)
      return std::move(welcome).status().with("something else than a slipring store listens there");
    if (Status status = check_verdict(*welcome); !status) return status;
    is_final = false;

    Result<Proof> mine = prove_side(StoreSide::client, job_token_, hello, *welcome);
    Result<Proof> expected = prove_side(StoreSide::server, job_token_, hello, *welcome);
    if (!mine) return std::move(mine).status();
    if (!expected) return std::move(expected).status();
    const std::string_view proof(reinterpret_cast<const char*>(mine->data()), mine->size());
    if (Status status = send_bytes(fd, proof, deadline); !status) return status;
    Proof theirs;
    if (Status status = receive_bytes(fd, reinterpret_cast<char*>(theirs.data()), theirs.size(), deadline);
        !status) {
      return status;
    }
    if (same_proof(theirs, *expected)) return {};
    is_final = true;
    return base::error(StatusCode::corrupt,
                       "the server did not prove the job token; another program took the port");
  }

  Status check_verdict(const StoreWelcome& welcome) const {
    if (welcome.verdict == StoreVerdict::other_version || welcome.version != kStoreProtocolVersion) {
      return base::error(
          StatusCode::mismatch,
          "the server speaks store protocol version {}, this rank version {}; run one slipring "
          "version on all ranks and in the launcher",
          welcome.version, kStoreProtocolVersion);
    }
    if (welcome.verdict == StoreVerdict::other_job) {
      return base::error(StatusCode::mismatch,
                         "the server belongs to another job: the job tokens differ; check SLIPRING_STORE and "
                         "SLIPRING_JOB_TOKEN of this rank");
    }
    return {};
  }

  const std::string url_;
  const std::string job_token_;
};

void pause_before_retry(milliseconds& pause, const base::Deadline& deadline) {
  std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, deadline.left()));
  pause = std::min(pause * 2, kLongestRetryPause);
}

}  // namespace

Result<std::shared_ptr<Store>> connect_tcp_store(const std::string& host, std::uint16_t port,
                                                 std::string job_token, const base::Deadline& deadline) {
  if (Status status = check_job_token(job_token); !status) return status;
  const std::string url = "tcp://" + format_host_port(host, port);
  Result<std::vector<SocketAddress>> addresses = resolve(host, port, deadline);
  if (!addresses) return std::move(addresses).status().with("store " + url);
  Opening opening(url, std::move(job_token));
  const auto begin = base::Clock::now();
  milliseconds pause = kFirstRetryPause;
  for (;;) {
    Status failure;
    for (const SocketAddress& address : *addresses) {
      base::FileDescriptor socket;
      bool is_final = false;
      failure =
          opening.attempt(address, sooner(deadline, base::Deadline::after(kAttemptLimit)), socket, is_final);
      if (failure.is_ok()) return std::shared_ptr<Store>(std::make_shared<TcpStore>(url, std::move(socket)));
      if (is_final) return std::move(failure).with("store " + url);
    }
    if (deadline.passed()) {
      const auto waited = std::chrono::duration_cast<milliseconds>(base::Clock::now() - begin).count();
      return base::error(
          StatusCode::timeout,
          "store {} not reached within {} ms: {}; is the process that hosts it (slipring-run, or the "
          "first rank's launcher) still running, and does SLIPRING_STORE name its host and port?",
          url, waited, failure.message());
    }
    pause_before_retry(pause, deadline);
  }
}

}  // namespace slipring::engine
