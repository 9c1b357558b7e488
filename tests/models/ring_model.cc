// The shipping ring under Relacy: two slots, three messages, both ways of carrying a payload, every way to end.
//
// Payload bytes are rl::var objects that stand for the lines of the ring, so that a read or a reuse that no
// edge orders is a data race. The producer owns the whole payload area once it has seen CONSUMER_ENDED, and
// uses that right, because whoever tears a job down does.
#include <array>

#include "transports/shm/ring.h"

#include "tests/models/relacy_policy.h"

namespace slipring::models {
namespace {

using transports::kInlineBytes;
using transports::kLineBytes;
using transports::RingMessage;
using transports::RingState;

constexpr std::uint32_t kSlots = 2;
constexpr std::uint32_t kLines = 4;

struct Scenario {
  std::string_view name;
  std::array<std::uint32_t, 3> bytes;  ///< of each message
  std::uint64_t start;                 ///< of the counters
  int taken_before_close;              ///< the consumer closes with the next one in hand; 3: it takes all
};
Scenario scenario;

struct RingModel : rl::test_suite<RingModel, 2> {
  using Index = transports::RingIndex<RelacyPolicy>;
  using Descriptor = transports::RingDescriptor<RelacyPolicy>;

  const transports::RingShape shape{.slots = kSlots, .payload_bytes = kLines * kLineBytes, .start = scenario.start};
  Index index;
  Descriptor descriptors[kSlots];
  rl::var<std::uint32_t> inline_payload[kSlots];
  rl::var<std::uint32_t> lines[kLines];
  transports::RingProducer<RelacyPolicy> producer{index, descriptors, shape};
  transports::RingConsumer<RelacyPolicy> consumer{index, descriptors, shape};

  void before() {
    index.released.begin("SLOT_FREE", scenario.start);
    index.consumer_closed.begin("CONSUMER_ENDED", 0);
    index.producer_closed.begin("PRODUCER_ENDED", 0);
    for (auto& d : descriptors) d.sequence.begin("SLOT_READY", transports::first_sequence(shape));
  }

  void thread(unsigned who) {
    if (who == 0)
      produce();
    else
      consume();
  }

  template <class Use>
  void each_line(const RingMessage& m, Use use) {
    if (m.is_inline()) return use(inline_payload[m.descriptor]);
    RL_ASSERT(m.payload_offset % kLineBytes == 0 && m.payload_offset + m.bytes <= shape.payload_bytes);
    for (std::uint32_t at = 0; at < m.bytes; at += kLineBytes) use(lines[(m.payload_offset + at) / kLineBytes]);
  }

  void produce() {
    for (std::uint32_t i = 0; i < scenario.bytes.size(); ++i) {
      RingMessage m;
      RingState state;
      while ((state = producer.try_loan(scenario.bytes[i], m)) == RingState::would_block) model_yield();
      if (state == RingState::closed) return reuse_everything();
      RL_ASSERT(state == RingState::ok);
      each_line(m, [&](auto& line) { line($) = i; });
      producer.publish(m);
    }
    producer.close();
    if (producer.consumer_closed()) reuse_everything();
  }

  void reuse_everything() {
    RL_ASSERT(scenario.taken_before_close < 3);
    for (auto& line : inline_payload) line($) = 99;
    for (auto& line : lines) line($) = 99;
  }

  void consume() {
    for (std::uint32_t i = 0;; ++i) {
      RingMessage m;
      RingState state;
      while ((state = consumer.try_peek(m)) == RingState::would_block) model_yield();
      if (state == RingState::closed) {
        RL_ASSERT(i == scenario.bytes.size());  // closed only after everything published was seen
        return;
      }
      RL_ASSERT(state == RingState::ok && m.bytes == scenario.bytes[i]);
      each_line(m, [&](auto& line) { RL_ASSERT(line($) == i); });
      if (static_cast<int>(i) == scenario.taken_before_close) return consumer.close();
      consumer.release();
    }
  }
};

bool run_all(std::string& verdict) {
  constexpr std::uint64_t kStarts[] = {0, 0xffff'ffff, 0xffff'ffff'ffff'fffe};
  constexpr std::array<std::uint32_t, 3> kInline{8, 0, 48}, kPayload{49, 100, 128}, kMixed{100, 8, 65};
  std::vector<Scenario> scenarios;
  for (const std::uint64_t start : kStarts) {
    scenarios.push_back({"inline messages", kInline, start, 3});
    scenarios.push_back({"payload that skips the end of the area", kPayload, start, 3});
  }
  scenarios.push_back({"mixed sizes", kMixed, 0, 3});
  scenarios.push_back({"consumer closes with an inline message in hand", kInline, 0, 0});
  scenarios.push_back({"consumer closes with a payload in hand", kPayload, 0, 1});
  for (const Scenario& s : scenarios) {
    scenario = s;
    std::string found;
    if (!explore<RingModel>({.random_runs = 100'000, .context_bound = 4}, found)) {
      verdict = std::string(s.name) + ", counters from " + std::to_string(s.start) + ": " + found;
      return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace slipring::models

int main(int argc, char** argv) {
  return slipring::models::model_main(argc, argv,
                                      {"SLOT_READY.writer", "SLOT_READY.reader", "SLOT_FREE.writer",
                                       "SLOT_FREE.reader", "PRODUCER_ENDED.writer", "PRODUCER_ENDED.reader",
                                       "CONSUMER_ENDED.writer", "CONSUMER_ENDED.reader"},
                                      slipring::models::run_all);
}
