// The ring channel between two pinned threads: round trip and throughput by size, on two cores and on one.
//
// The producer copies the message in; the consumer reads one word of each line in place. On one core the wait
// begins with sched_yield, as it does for ranks that outnumber the cores. Time is wall time.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <vector>

#include "base/wait.h"
#include "bench/micro/pinned_pair.h"
#include "transports/shm/shm_channel.h"

namespace slipring::bench {
namespace {

using transports::ChannelConsumer;
using transports::ChannelProducer;

class NoWatch final : public base::Watch {
 public:
  Status interrupted() override { return {}; }
  Status check_peers() override { return {}; }
};

// Two channels, one each way, with the endpoints of both sides.
class Link {
 public:
  explicit Link(int cores) : waiters_{{bells_[0], windows(cores), watch_}, {bells_[1], windows(cores), watch_}} {
    const std::size_t control = transports::shm_ring_control_bytes(kShape);
    for (int from = 0; from < 2; ++from) {
      memory_[from].resize((control + kShape.payload_bytes) / sizeof(Line));
      auto* bytes = reinterpret_cast<std::byte*>(memory_[from].data());
      if (!transports::init_shm_ring(bytes, kShape)) std::abort();
      const auto endpoint = [&](int side) {
        return transports::ShmEndpoint{.control = bytes, .payload = bytes + control, .shape = kShape,
                                       .waiter = &waiters_[side], .peer_doorbell = &bells_[1 - side],
                                       .peer = 1 - side, .transport = "inproc"};
      };
      producers[from] = transports::make_shm_producer(endpoint(from));
      consumers[1 - from] = transports::make_shm_consumer(endpoint(1 - from));
    }
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  static constexpr transports::RingShape kShape{.slots = 64, .payload_bytes = 4 << 20, .start = 0};

  static base::WaitWindows windows(int cores) {
    constexpr std::int64_t kSecond = 1'000'000'000;
    base::WaitWindows w;
    w.spin_ns = cores == 1 ? 0 : kSecond;
    w.yield_ns = kSecond;
    return w;
  }

  NoWatch watch_;
  base::Doorbell bells_[2];
  base::Waiter waiters_[2];
  std::vector<Line> memory_[2];

 public:
  // By side. Last, because an endpoint closes its ring when it goes.
  std::unique_ptr<ChannelProducer> producers[2];
  std::unique_ptr<ChannelConsumer> consumers[2];
};

bool send(ChannelProducer& producer, const std::vector<std::byte>& message) {
  std::span<std::byte> slot;
  if (!producer.loan(message.size(), slot, base::Deadline::never())) return false;
  std::memcpy(slot.data(), message.data(), message.size());
  producer.publish();
  return true;
}

bool receive(ChannelConsumer& consumer) {
  std::span<const std::byte> message;
  if (!consumer.peek(message, base::Deadline::never())) return false;
  for (std::size_t at = 0; at < message.size(); at += 64) benchmark::DoNotOptimize(message[at]);
  consumer.release();
  return true;
}

void BM_ring_round_trip(benchmark::State& state) {
  const int cores = static_cast<int>(state.range(1));
  if (!PinnedPair::possible(cores)) return state.SkipWithError("not enough CPUs");
  const std::vector<std::byte> message(static_cast<std::size_t>(state.range(0)));
  Link link(cores);
  PinnedPair pair(cores, [&] {
    while (receive(*link.consumers[1]) && send(*link.producers[1], message)) {
    }
  });
  for (auto _ : state) {
    send(*link.producers[0], message);
    receive(*link.consumers[0]);
  }
  link.producers[0]->close();
}

void BM_ring_throughput(benchmark::State& state) {
  const int cores = static_cast<int>(state.range(1));
  if (!PinnedPair::possible(cores)) return state.SkipWithError("not enough CPUs");
  const std::vector<std::byte> message(static_cast<std::size_t>(state.range(0)));
  Link link(cores);
  PinnedPair pair(cores, [&] {
    while (receive(*link.consumers[1])) {
    }
  });
  for (auto _ : state) send(*link.producers[0], message);
  link.producers[0]->close();
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(0));
}

BENCHMARK(BM_ring_round_trip)->ArgNames({"bytes", "cores"})->UseRealTime()->ArgsProduct(
    {{8, 48, 49, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 1 << 20}, {2, 1}});
BENCHMARK(BM_ring_throughput)->ArgNames({"bytes", "cores"})->UseRealTime()->ArgsProduct(
    {{8, 48, 49, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 1 << 20}, {2, 1}});

}  // namespace
}  // namespace slipring::bench

BENCHMARK_MAIN();
