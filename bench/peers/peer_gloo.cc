// Contender over Gloo's TCP transport on loopback, the only one it has between processes of one host.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <filesystem>
#include <memory>

#include "turn.h"

namespace {

class GlooContender : public turn::Contender {
 public:
  explicit GlooContender(const turn::Seat& seat)
      : context_(std::make_shared<gloo::rendezvous::Context>(seat.rank, seat.size)) {
    const std::string meeting_place = seat.directory + "/gloo";
    std::filesystem::create_directories(meeting_place);
    gloo::rendezvous::FileStore store(meeting_place);
    gloo::transport::tcp::attr attr;
    attr.iface = "lo";
    // Pinned, the rank and Gloo's event loop share a core and wait for each other's time slices: all_reduce of
    // 1 KiB takes 4 ms instead of 0.2 ms. So this contender alone floats over all cores of the case.
    turn::widen_affinity(seat);
    auto device = gloo::transport::tcp::CreateDevice(attr);
    context_->connectFullMesh(store, device);
  }

  std::vector<std::string> ops() const override { return {"send_recv", "stream", "stream_in_place", "all_reduce", "all_gather", "all_to_all", "broadcast", "barrier", "decode"}; }
  std::string version() const override {
    return "Gloo " + std::to_string(GLOO_VERSION_MAJOR) + "." + std::to_string(GLOO_VERSION_MINOR) + "." +
           std::to_string(GLOO_VERSION_PATCH);
  }

  void all_reduce(float* buffer, std::size_t count) override {
    gloo::AllreduceOptions options(context_);
    options.setOutput(buffer, count);
    options.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, std::size_t)>(gloo::sum<float>));
    gloo::allreduce(options);
  }
  void all_gather(const float* in, float* out, std::size_t count) override {
    gloo::AllgatherOptions options(context_);
    options.setInput(const_cast<float*>(in), count);
    options.setOutput(out, count * static_cast<std::size_t>(context_->size));
    gloo::allgather(options);
  }
  void all_to_all(const float* in, float* out, std::size_t count) override {
    const std::size_t all = count * static_cast<std::size_t>(context_->size);
    gloo::AlltoallOptions options(context_);
    options.setInput(const_cast<float*>(in), all);
    options.setOutput(out, all);
    gloo::alltoall(options);
  }
  void broadcast(float* buffer, std::size_t count) override {
    gloo::BroadcastOptions options(context_);
    options.setOutput(buffer, count);
    options.setRoot(0);
    gloo::broadcast(options);
  }
  void barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }
  void send(const std::byte* buffer, std::size_t bytes, int peer) override {
    auto message = context_->createUnboundBuffer(const_cast<std::byte*>(buffer), bytes);
    message->send(peer, kSlot);
    message->waitSend();
  }
  void recv(std::byte* buffer, std::size_t bytes, int peer) override {
    auto message = context_->createUnboundBuffer(buffer, bytes);
    message->recv(peer, kSlot);
    message->waitRecv();
  }

  void stream_send(const std::byte* buffers, std::size_t bytes, std::size_t messages, int peer) override {
    Window window(*context_, const_cast<std::byte*>(buffers), bytes);
    for (std::size_t i = 0; i < messages; ++i) {
      if (i >= turn::kStreamWindow) window.at(i).waitSend();
      window.at(i).send(peer, kSlot);
    }
    for (std::size_t i = 0; i < std::min(messages, turn::kStreamWindow); ++i) window.at(i).waitSend();
  }
  void stream_recv(std::byte* buffers, std::size_t bytes, std::size_t messages, int peer) override {
    Window window(*context_, buffers, bytes);
    for (std::size_t i = 0; i < messages; ++i) {
      if (i >= turn::kStreamWindow) window.at(i).waitRecv();
      window.at(i).recv(peer, kSlot);
    }
    for (std::size_t i = 0; i < std::min(messages, turn::kStreamWindow); ++i) window.at(i).waitRecv();
  }

 private:
  static constexpr std::uint64_t kSlot = 7;

  class Window {
   public:
    Window(gloo::Context& context, std::byte* buffers, std::size_t bytes) {
      for (std::size_t i = 0; i < turn::kStreamWindow; ++i) {
        messages_.push_back(context.createUnboundBuffer(buffers + i * bytes, bytes));
      }
    }
    gloo::transport::UnboundBuffer& at(std::size_t i) { return *messages_[i % turn::kStreamWindow]; }

   private:
    std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> messages_;
  };

  std::shared_ptr<gloo::rendezvous::Context> context_;
};

}  // namespace

int main() {
  const turn::Seat seat = turn::take_seat();
  try {
    GlooContender contender(seat);
    return turn::serve(seat, contender);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gloo did not start: %s\n", error.what());
    return 1;
  }
}
