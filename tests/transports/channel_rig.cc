#include "tests/transports/channel_rig.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <map>
#include <stdexcept>

#include "base/status.h"
#include "transports/shm/shm_channel.h"

namespace slipring::tests {

using base::Doorbell;
using base::error;

namespace {

constexpr std::size_t kDoorbellBytes = 4096;

std::size_t padded(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

std::map<std::string, FarBody::Function>& bodies() {
  static std::map<std::string, FarBody::Function> all;
  return all;
}

RoleArguments to_arguments(const RigShape& s) {
  return {std::to_string(s.ring.slots),          std::to_string(s.ring.payload_bytes), std::to_string(s.ring.start),
          std::to_string(s.channels),            std::to_string(s.windows.spin_ns),    std::to_string(s.windows.yield_ns),
          std::to_string(s.windows.liveness_ns), std::to_string(s.windows.timeout_ns)};
}

RigShape from_arguments(const RoleArguments& a, std::size_t at) {
  RigShape s;
  s.ring = {.slots = static_cast<std::uint32_t>(std::stoul(a[at])),
            .payload_bytes = static_cast<std::uint32_t>(std::stoul(a[at + 1])),
            .start = std::stoull(a[at + 2])};
  s.channels = std::stoi(a[at + 3]);
  s.windows = {.spin_ns = std::stoll(a[at + 4]), .yield_ns = std::stoll(a[at + 5]),
               .liveness_ns = std::stoll(a[at + 6]), .timeout_ns = std::stoll(a[at + 7])};
  return s;
}
constexpr std::size_t kShapeArguments = 8;

// Arguments: body, segment address, shape, the body's own.
const Role far_side("far_side", [](const RoleArguments& arguments) {
  auto segment = base::Segment::attach(arguments[1], Side::soon());
  if (!segment) {
    ADD_FAILURE() << segment.status().to_string();
    return 1;
  }
  {
    Side side((*segment)->data(), from_arguments(arguments, 2), Side::Which::far, Transport::shm);
    side.watch().watch(::getppid());
    bodies().at(arguments[0])(side, {arguments.begin() + 2 + kShapeArguments, arguments.end()});
  }
  return ::testing::UnitTest::GetInstance()->Failed() ? 1 : 0;
});

}  // namespace

Status PeerWatch::interrupted() {
  return interrupted_ ? error(StatusCode::aborted, "the test interrupts") : Status();
}

Status PeerWatch::check_peers() {
  return peer_ && peer_->gone() ? error(StatusCode::peer_lost, "process {} has ended", peer_->id().pid) : Status();
}

FarBody::FarBody(const char* name, Function body) { bodies()[name] = body; }

Side::Side(std::byte* memory, const RigShape& shape, Which which, Transport transport)
    : memory_(memory), shape_(shape), which_(which), transport_(transport),
      waiter_(doorbell(which), shape.windows, watch_), producers_(shape.channels), consumers_(shape.channels) {}

std::size_t Side::channel_bytes(const RigShape& shape) {
  return padded(transports::shm_ring_control_bytes(shape.ring)) + padded(shape.ring.payload_bytes);
}
std::size_t Side::memory_bytes(const RigShape& shape) {
  return kDoorbellBytes + 2 * shape.channels * channel_bytes(shape);
}
std::size_t Side::control_bytes() const { return transports::shm_ring_control_bytes(shape_.ring); }
Doorbell& Side::doorbell(Which side) const {
  return reinterpret_cast<Doorbell*>(memory_)[side == Which::near ? 0 : 1];
}
std::byte* Side::control(Which producer, int channel) const {
  return memory_ + kDoorbellBytes + (2 * channel + (producer == Which::near ? 0 : 1)) * channel_bytes(shape_);
}
std::byte* Side::payload(Which producer, int channel) const {
  return control(producer, channel) + padded(control_bytes());
}

void Side::init(std::byte* memory, const RigShape& shape) {
  new (memory) Doorbell[2];
  const Side view(memory, shape, Which::near, Transport::inproc);
  for (int channel = 0; channel < shape.channels; ++channel) {
    for (const Which producer : {Which::near, Which::far}) {
      const Status s = transports::init_shm_ring(view.control(producer, channel), shape.ring);
      ASSERT_TRUE(s) << s.to_string();
    }
  }
}

transports::ChannelProducer& Side::producer(int channel) {
  auto& made = producers_[channel];
  const Which other = which_ == Which::near ? Which::far : Which::near;
  if (!made)
    made = transports::make_shm_producer({.control = control(which_, channel), .payload = payload(which_, channel),
                                          .shape = shape_.ring, .waiter = &waiter_, .peer_doorbell = &doorbell(other),
                                          .peer = other == Which::near ? 0 : 1,
                                          .transport = transport_ == Transport::shm ? "shm" : "inproc"});
  return *made;
}

transports::ChannelConsumer& Side::consumer(int channel) {
  auto& made = consumers_[channel];
  const Which other = which_ == Which::near ? Which::far : Which::near;
  if (!made)
    made = transports::make_shm_consumer({.control = control(other, channel), .payload = payload(other, channel),
                                          .shape = shape_.ring, .waiter = &waiter_, .peer_doorbell = &doorbell(other),
                                          .peer = other == Which::near ? 0 : 1,
                                          .transport = transport_ == Transport::shm ? "shm" : "inproc"});
  return *made;
}

ChannelRig::ChannelRig(Transport transport, const RigShape& shape) : transport_(transport), shape_(shape) {
  auto segment = base::Segment::create({.bytes = Side::memory_bytes(shape), .tag = "channels under test"});
  if (!segment) throw std::runtime_error(segment.status().to_string());
  segment_ = *segment;
  Side::init(segment_->data(), shape);
  near_ = std::make_unique<Side>(segment_->data(), shape, Side::Which::near, transport);
}

ChannelRig::~ChannelRig() {
  near_.reset();
  far_here_.reset();
  finish();
}

Side& ChannelRig::far_here() {
  if (!far_here_) far_here_ = std::make_unique<Side>(segment_->data(), shape_, Side::Which::far, transport_);
  return *far_here_;
}

void ChannelRig::start_far(const std::string& body, const RoleArguments& arguments) {
  if (transport_ == Transport::inproc) {
    thread_ = std::thread([this, body, arguments] {
      Side side(segment_->data(), shape_, Side::Which::far, transport_);
      bodies().at(body)(side, arguments);
    });
    return;
  }
  RoleArguments all{body, segment_->address()};
  const RoleArguments shape = to_arguments(shape_);
  all.insert(all.end(), shape.begin(), shape.end());
  all.insert(all.end(), arguments.begin(), arguments.end());
  process_ = std::make_unique<RoleProcess>("far_side", all);
  near_->watch().watch(process_->pid());
}

void ChannelRig::finish() {
  if (thread_.joinable()) thread_.join();
  if (process_ && !killed_) {
    EXPECT_EQ(process_->wait(), 0) << "the far side failed; see above";
  }
  process_.reset();
}

void ChannelRig::kill_far() {
  killed_ = true;
  process_->send_signal(SIGKILL);
}

}  // namespace slipring::tests
