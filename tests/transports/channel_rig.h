// ChannelRig: two sides joined by channels in both directions, the far side being a thread (inproc) or a
// process started anew (shm). A test acts as the near side and names the body that the far side runs.
//
// A transport joins the suite by an entry in Transport and, if it needs another kind of endpoint, by a Side that
// makes them. Every wait is bounded by the windows' timeout. Bodies use EXPECT_ macros; a failure on either
// side fails the test. One thread per Side.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "base/liveness.h"
#include "base/segment.h"
#include "base/wait.h"
#include "tests/base/role_process.h"
#include "transports/channel.h"
#include "transports/shm/ring.h"

namespace slipring::tests {

enum class Transport { inproc, shm };

inline std::string transport_name(Transport transport) { return transport == Transport::shm ? "shm" : "inproc"; }

struct RigShape {
  transports::RingShape ring{.slots = 16, .payload_bytes = 64 * 1024, .start = 0};
  int channels = 1;  ///< in each direction
  // Short windows: a test sleeps often, and learns of a death soon.
  base::WaitWindows windows{
      .spin_ns = 2'000, .yield_ns = 50'000, .liveness_ns = 5'000'000, .timeout_ns = 50'000'000'000};
};

/// Reports the other side's process as lost once it has ended, and an interruption that the test asks for.
class PeerWatch final : public base::Watch {
 public:
  void watch(pid_t pid) { peer_ = base::PeerProcess::open({.pid = pid, .start_ticks = base::process_start_ticks(pid)}); }
  Status interrupted() override;
  Status check_peers() override;
  void interrupt() { interrupted_ = true; }

 private:
  std::shared_ptr<const base::PeerProcess> peer_;
  std::atomic<bool> interrupted_{false};
};

/// The endpoints of one side. `near` produces on the forward channels and consumes from the backward ones.
class Side {
 public:
  enum class Which { near, far };

  Side(std::byte* memory, const RigShape& shape, Which which, Transport transport);
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  transports::ChannelProducer& producer(int channel = 0);
  transports::ChannelConsumer& consumer(int channel = 0);
  base::Waiter& waiter() { return waiter_; }
  PeerWatch& watch() { return watch_; }
  const RigShape& shape() const { return shape_; }
  static base::Deadline soon() { return base::Deadline::after(std::chrono::seconds(50)); }

  /// Where the counters and descriptors of a channel lie, for tests that play a hostile peer.
  std::byte* control(Which producer, int channel) const;
  std::byte* payload(Which producer, int channel) const;
  std::size_t control_bytes() const;

  static std::size_t memory_bytes(const RigShape& shape);
  static void init(std::byte* memory, const RigShape& shape);

 private:
  base::Doorbell& doorbell(Which side) const;
  static std::size_t channel_bytes(const RigShape& shape);

  std::byte* memory_;
  RigShape shape_;
  Which which_;
  Transport transport_;
  PeerWatch watch_;
  base::Waiter waiter_;
  std::vector<std::unique_ptr<transports::ChannelProducer>> producers_;
  std::vector<std::unique_ptr<transports::ChannelConsumer>> consumers_;
};

/// What a far side does. Registered statically, so that a new process finds it by name.
struct FarBody {
  using Function = void (*)(Side& side, const RoleArguments& arguments);
  FarBody(const char* name, Function body);
};

class ChannelRig {
 public:
  explicit ChannelRig(Transport transport, const RigShape& shape = {});
  ~ChannelRig();  ///< closes the near side, then waits for the far one
  ChannelRig(const ChannelRig&) = delete;
  ChannelRig& operator=(const ChannelRig&) = delete;

  Side& near() { return *near_; }
  /// The far side's endpoints in the calling thread, for tests that are about one channel's states.
  Side& far_here();
  void start_far(const std::string& body, const RoleArguments& arguments = {});
  /// Waits for the far side; fails the test if it did.
  void finish();
  /// shm only: SIGKILL.
  void kill_far();

 private:
  Transport transport_;
  RigShape shape_;
  std::shared_ptr<base::Segment> segment_;
  std::unique_ptr<Side> near_, far_here_;
  std::unique_ptr<RoleProcess> process_;
  std::thread thread_;
  bool killed_ = false;
};

}  // namespace slipring::tests
