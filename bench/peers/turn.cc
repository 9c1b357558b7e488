#include "turn.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace turn {
namespace {

[[noreturn]] void leave(const std::string& sentence) {
  std::fprintf(stderr, "bench contender: %s\n", sentence.c_str());
  std::exit(2);
}

std::string required_variable(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) leave(std::string("variable ") + name + " not set; start it with bench/peers/run");
  return value;
}

int rank_from_environment() {
  for (const char* name : {"TURN_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    if (const char* value = std::getenv(name)) return std::atoi(value);
  }
  leave("no rank in the environment (TURN_RANK, OMPI_COMM_WORLD_RANK or PMI_RANK)");
}

void set_affinity(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    leave("sched_setaffinity failed, first core " + std::to_string(cores[0]) + ", errno " + std::strerror(errno));
  }
}

std::string json_text(const std::string& text) {
  std::string out;
  for (char c : text.substr(0, 800)) {
    if (c == '"' || c == '\\') out += '\\';
    out += (static_cast<unsigned char>(c) < 0x20) ? ' ' : c;
  }
  return out;
}

// A line stays below PIPE_BUF, so that lines of several ranks never mix in the one reply pipe.
void write_reply(int fd, const std::string& fields, int rank) {
  const std::string line = "{\"rank\": " + std::to_string(rank) + ", " + fields + "}\n";
  if (::write(fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::_Exit(3);
}

int open_reply_pipe(const Seat& seat) {
  const int fd = ::open((seat.directory + "/reply").c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) leave("cannot open " + seat.directory + "/reply: " + std::strerror(errno));
  return fd;
}

/// Ordinary private memory, page-aligned and touched, as an application's would be.
class Buffer {
 public:
  ~Buffer() { drop(); }
  std::byte* of(std::size_t bytes) {
    if (bytes != bytes_) {
      drop();
      void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (p == MAP_FAILED) throw std::runtime_error("no memory for " + std::to_string(bytes) + " bytes");
      data_ = static_cast<std::byte*>(p);
      bytes_ = bytes;
    }
    std::memset(data_, 0, bytes_);
    return data_;
  }
  std::byte* get() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  void drop() {
    if (data_) ::munmap(data_, bytes_);
    data_ = nullptr;
    bytes_ = 0;
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

struct Turn {
  std::string verb;  // time, check, memory, drop, quit
  std::string op;
  std::size_t bytes = 0;
  std::size_t batches = 0;
  std::size_t ops = 0;     // per batch: one clock read per batch, so that its 36 ns do not count
  std::size_t warmup = 0;  // operations
};

float pattern(std::size_t i) { return static_cast<float>(i % 7 + 1); }

// A step of decoding in a tensor-parallel model: many small sums, and a large one for the sampled tokens.
constexpr std::size_t kDecodeSmall = 8 * 1024, kDecodeLarge = 512 * 1024, kDecodeSmallOps = 100;

class Server {
 public:
  Server(const Seat& seat, Contender& contender) : seat_(seat), contender_(contender) {
    reply_ = open_reply_pipe(seat_);
    const std::string name = seat_.directory + "/turn." + std::to_string(seat_.rank);
    commands_.open(name);
    if (!commands_) leave("cannot open " + name);
  }
  ~Server() { ::close(reply_); }

  int run() {
    reply(ready());
    for (std::string line; std::getline(commands_, line);) {
      Turn t;
      std::istringstream(line) >> t.verb >> t.op >> t.bytes >> t.batches >> t.ops >> t.warmup;
      if (t.verb == "quit") return 0;
      // A rank that is stuck inside its library must not outlive a controller that was killed.
      ::alarm(kTurnLimitSeconds);
      reply(handle(t));
      ::alarm(0);
    }
    return 0;
  }

  void reply(const std::string& fields) { write_reply(reply_, fields, seat_.rank); }

 private:
  std::string ready() const {
    std::string ops;
    for (const std::string& op : contender_.ops()) ops += (ops.empty() ? "\"" : ", \"") + op + "\"";
    return "\"state\": \"ready\", \"ops\": [" + ops + "], \"version\": \"" + json_text(contender_.version()) +
           "\", " + memory();
  }

  static std::string memory() {
    long rss = 0, shared = 0;
    std::ifstream status("/proc/self/status");
    for (std::string key; status >> key;) {
      if (key == "VmRSS:") status >> rss;
      if (key == "RssShmem:") status >> shared;
    }
    return "\"rss_kib\": " + std::to_string(rss) + ", \"shared_kib\": " + std::to_string(shared);
  }

  std::string handle(const Turn& t) {
    if (t.verb == "memory") return memory();
    if (t.verb == "drop") {
      buffer_.drop();
      return "\"state\": \"dropped\"";
    }
    const std::size_t needed = buffers_of(t);
    if (t.verb == "check") {
      buffer_.of(needed);
      const std::size_t wrong = contender_.exchanges_data() ? check(t) : 0;
      // All zero from here on: sums in place neither grow to infinity nor decay to denormals.
      buffer_.of(needed);
      return "\"wrong\": " + std::to_string(wrong);
    }
    if (buffer_.bytes() != needed) buffer_.of(needed);
    return time(t);
  }

  static bool out_of_place(const std::string& op) { return op == "all_gather" || op == "reduce_scatter" || op == "all_to_all"; }
  static std::size_t buffers_of(const Turn& t) {
    if (t.op == "decode") return kDecodeLarge;
    if (t.op == "barrier") return 64;
    return t.bytes * (t.op.starts_with("stream") ? kStreamWindow : out_of_place(t.op) ? 2 : 1);
  }

  // Out of place: the input, then the output, each as large as the larger of both.
  void move_blocks(const Turn& t, std::size_t ops) {
    const float* in = reinterpret_cast<const float*>(buffer_.get());
    float* out = reinterpret_cast<float*>(buffer_.get() + t.bytes);
    const std::size_t block = t.bytes / sizeof(float) / static_cast<std::size_t>(seat_.size);
    for (std::size_t i = 0; i < ops; ++i) {
      if (t.op == "all_gather")
        contender_.all_gather(in, out, block);
      else if (t.op == "reduce_scatter")
        contender_.reduce_scatter(in, out, block);
      else
        contender_.all_to_all(in, out, block);
    }
  }

  void decode(std::size_t steps) {
    float* data = reinterpret_cast<float*>(buffer_.get());
    for (std::size_t step = 0; step < steps; ++step) {
      for (std::size_t i = 0; i < kDecodeSmallOps; ++i) contender_.all_reduce(data, kDecodeSmall / sizeof(float));
      contender_.all_reduce(data, kDecodeLarge / sizeof(float));
    }
  }

  void batch(const Turn& t, std::size_t ops) {
    if (out_of_place(t.op)) {
      move_blocks(t, ops);
    } else if (t.op == "decode") {
      decode(ops);
    } else if (t.op == "broadcast") {
      for (std::size_t i = 0; i < ops; ++i) contender_.broadcast(reinterpret_cast<float*>(buffer_.get()), t.bytes / sizeof(float));
    } else if (t.op == "barrier") {
      for (std::size_t i = 0; i < ops; ++i) contender_.barrier();
    } else if (t.op == "all_reduce_bf16" || t.op == "all_reduce_f16") {
      for (std::size_t i = 0; i < ops; ++i) contender_.all_reduce_halves(buffer_.get(), t.bytes, t.op == "all_reduce_bf16");
    } else if (t.op == "all_reduce") {
      float* data = reinterpret_cast<float*>(buffer_.get());
      for (std::size_t i = 0; i < ops; ++i) contender_.all_reduce(data, t.bytes / sizeof(float));
    } else if (t.op == "send_recv") {
      round_trips(t, ops);
    } else {
      stream(t, ops);
    }
  }

  void round_trips(const Turn& t, std::size_t ops) {
    std::byte* data = buffer_.get();
    for (std::size_t i = 0; i < ops; ++i) {
      if (seat_.rank == 0) {
        contender_.send(data, t.bytes, 1);
        contender_.recv(data, t.bytes, 1);
      } else if (seat_.rank == 1) {
        contender_.recv(data, t.bytes, 0);
        contender_.send(data, t.bytes, 0);
      }
    }
  }

  // The receiver's answer closes a batch: the time covers the arrival of the last message, not its departure.
  void stream(const Turn& t, std::size_t ops) {
    alignas(64) std::byte answer[64] = {};
    const bool in_place = t.op == "stream_in_place";
    if (seat_.rank == 0) {
      if (in_place) {
        contender_.produce(buffer_.get(), t.bytes, ops, 1.0f, 1);
      } else {
        contender_.stream_send(buffer_.get(), t.bytes, ops, 1);
      }
      contender_.recv(answer, 8, 1);
    } else if (seat_.rank == 1) {
      if (in_place) {
        sum_ = contender_.consume(buffer_.get(), t.bytes, ops, 0);
      } else {
        contender_.stream_recv(buffer_.get(), t.bytes, ops, 0);
      }
      contender_.send(answer, 8, 0);
    }
  }

  std::string time(const Turn& t) {
    using Clock = std::chrono::steady_clock;
    if (t.warmup) batch(t, t.warmup);
    std::vector<double> ns(t.batches);
    for (double& sample : ns) {
      const auto start = Clock::now();
      batch(t, t.ops);
      const std::chrono::duration<double, std::nano> spent = Clock::now() - start;
      sample = spent.count() / static_cast<double>(t.ops) / (t.op == "send_recv" ? 2 : 1);
    }
    std::sort(ns.begin(), ns.end());
    if (ns.empty()) return "\"error\": \"a turn without batches\"";
    return "\"median_ns\": " + std::to_string(ns[ns.size() / 2]) + ", \"min_ns\": " + std::to_string(ns.front()) +
           ", \"p99_ns\": " + std::to_string(ns[(ns.size() * 99 + 99) / 100 - 1]) + ", \"max_ns\": " + std::to_string(ns.back());
  }

  // Small integers in floats: every sum is exact, so that every element can be compared for equality.
  std::size_t check(const Turn& t) {
    std::byte* bytes = buffer_.get();
    if (t.op == "all_reduce") {
      float* data = reinterpret_cast<float*>(bytes);
      const std::size_t count = t.bytes / sizeof(float);
      const float ranks_sum = static_cast<float>(seat_.size * (seat_.size + 1) / 2);
      for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<float>(seat_.rank + 1) * pattern(i);
      contender_.all_reduce(data, count);
      return count_wrong(count, [&](std::size_t i) { return data[i] == ranks_sum * pattern(i); });
    }
    if (out_of_place(t.op)) return check_blocks(t);
    if (t.op == "broadcast") {
      float* data = reinterpret_cast<float*>(bytes);
      const std::size_t count = t.bytes / sizeof(float);
      for (std::size_t i = 0; i < count; ++i) data[i] = seat_.rank == 0 ? pattern(i) : -1;
      contender_.broadcast(data, count);
      return count_wrong(count, [&](std::size_t i) { return data[i] == pattern(i); });
    }
    if (t.op == "decode" || t.op == "barrier" || t.op.starts_with("all_reduce_")) {  // the sums are checked as all_reduce
      batch(t, 1);
      return 0;
    }
    if (t.op == "stream_in_place") return check_in_place_stream(t);
    const std::size_t all = buffer_.bytes();
    if (seat_.rank == 0) std::generate_n(bytes, all, [i = 0u]() mutable { return std::byte(i++ * 31 + 7); });
    batch_once(t);
    if (seat_.rank > 1) return 0;
    return count_wrong(all, [&](std::size_t i) { return bytes[i] == std::byte(static_cast<unsigned>(i) * 31 + 7); });
  }

  // Element i of the input of rank r is value(r, i).
  std::size_t check_blocks(const Turn& t) {
    const auto value = [](std::size_t rank, std::size_t i) { return static_cast<float>(rank + 1) * pattern(i); };
    float* in = reinterpret_cast<float*>(buffer_.get());
    float* out = reinterpret_cast<float*>(buffer_.get() + t.bytes);
    const auto rank = static_cast<std::size_t>(seat_.rank), ranks = static_cast<std::size_t>(seat_.size);
    const std::size_t block = t.bytes / sizeof(float) / ranks;
    for (std::size_t i = 0; i < block * ranks; ++i) in[i] = value(rank, i);
    move_blocks(t, 1);
    if (t.op == "reduce_scatter") {
      const float ranks_sum = static_cast<float>(ranks * (ranks + 1) / 2);
      return count_wrong(block, [&](std::size_t i) { return out[i] == ranks_sum * pattern(rank * block + i); });
    }
    const std::size_t first = t.op == "all_to_all" ? rank * block : 0;
    return count_wrong(block * ranks, [&](std::size_t i) { return out[i] == value(i / block, first + i % block); });
  }

  void batch_once(const Turn& t) { batch(t, t.op == "stream" ? kStreamWindow : 1); }

  std::size_t check_in_place_stream(const Turn& t) {
    batch(t, kStreamWindow);
    const double expected = static_cast<double>(t.bytes / sizeof(float) * kStreamWindow);
    return seat_.rank == 1 && sum_ != expected ? 1 : 0;
  }

  template <class Right>
  static std::size_t count_wrong(std::size_t count, const Right& right) {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) wrong += right(i) ? 0 : 1;
    return wrong;
  }

  Seat seat_;
  Contender& contender_;
  int reply_ = -1;
  std::ifstream commands_;
  Buffer buffer_;
  double sum_ = 0;
};

}  // namespace

Seat take_seat() {
  ::signal(SIGPIPE, SIG_DFL);
  Seat seat{rank_from_environment(), std::atoi(required_variable("TURN_SIZE").c_str()),
            required_variable("TURN_DIR"), {}};
  std::istringstream list(required_variable("TURN_CORES"));
  for (std::string core; std::getline(list, core, ',');) seat.cores.push_back(std::atoi(core.c_str()));
  set_affinity({seat.cores[static_cast<std::size_t>(seat.rank) % seat.cores.size()]});
  // The pid goes out before the peer library starts: a rank that hangs in its start-up can still be ended.
  const int fd = open_reply_pipe(seat);
  write_reply(fd, "\"state\": \"seated\", \"pid\": " + std::to_string(::getpid()), seat.rank);
  ::close(fd);
  return seat;
}

void widen_affinity(const Seat& seat) { set_affinity(seat.cores); }

void Contender::all_reduce(float*, std::size_t) { throw std::logic_error("all_reduce is not offered"); }
void Contender::all_reduce_halves(std::byte*, std::size_t, bool) { throw std::logic_error("all_reduce of two-byte types is not offered"); }
void Contender::all_gather(const float*, float*, std::size_t) { throw std::logic_error("all_gather is not offered"); }
void Contender::reduce_scatter(const float*, float*, std::size_t) { throw std::logic_error("reduce_scatter is not offered"); }
void Contender::all_to_all(const float*, float*, std::size_t) { throw std::logic_error("all_to_all is not offered"); }
void Contender::broadcast(float*, std::size_t) { throw std::logic_error("broadcast is not offered"); }
void Contender::barrier() { throw std::logic_error("barrier is not offered"); }
void Contender::send(const std::byte*, std::size_t, int) { throw std::logic_error("send is not offered"); }
void Contender::recv(std::byte*, std::size_t, int) { throw std::logic_error("recv is not offered"); }

void Contender::stream_send(const std::byte* buffers, std::size_t bytes, std::size_t messages, int peer) {
  for (std::size_t i = 0; i < messages; ++i) send(buffers + i % kStreamWindow * bytes, bytes, peer);
}

void Contender::stream_recv(std::byte* buffers, std::size_t bytes, std::size_t messages, int peer) {
  for (std::size_t i = 0; i < messages; ++i) recv(buffers + i % kStreamWindow * bytes, bytes, peer);
}

void Contender::produce(std::byte* buffers, std::size_t bytes, std::size_t messages, float value, int peer) {
  for (std::size_t i = 0; i < messages; ++i) {
    std::byte* message = buffers + i % kStreamWindow * bytes;
    store_floats(message, bytes, value);
    send(message, bytes, peer);
  }
}

double Contender::consume(std::byte* buffers, std::size_t bytes, std::size_t messages, int peer) {
  double sum = 0;
  for (std::size_t i = 0; i < messages; ++i) {
    std::byte* message = buffers + i % kStreamWindow * bytes;
    recv(message, bytes, peer);
    sum += sum_floats(message, bytes);
  }
  return sum;
}

__attribute__((target_clones("avx512f", "avx2", "default"))) void store_floats(std::byte* to, std::size_t bytes,
                                                                              float value) {
  float* data = reinterpret_cast<float*>(to);
  for (std::size_t i = 0; i < bytes / sizeof(float); ++i) data[i] = value;
}

// 64 partial sums: a single one would measure the latency of an addition, not the memory.
__attribute__((target_clones("avx512f", "avx2", "default"))) double sum_floats(const std::byte* from,
                                                                              std::size_t bytes) {
  const float* data = reinterpret_cast<const float*>(from);
  const std::size_t count = bytes / sizeof(float);
  float partial[64] = {};
  std::size_t i = 0;
  for (; i + 64 <= count; i += 64) {
    for (std::size_t lane = 0; lane < 64; ++lane) partial[lane] += data[i + lane];
  }
  double sum = 0;
  for (; i < count; ++i) sum += data[i];
  for (float lane : partial) sum += lane;
  return sum;
}

int serve(const Seat& seat, Contender& contender) {
  Server server(seat, contender);
  try {
    return server.run();
  } catch (const std::exception& error) {
    server.reply("\"error\": \"" + json_text(error.what()) + "\"");
    return 1;
  }
}

}  // namespace turn
