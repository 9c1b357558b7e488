// Contender over UCX active messages: what UCX gives without an MPI on top. Two ranks, point to point only.
#include <ucp/api/ucp.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

#include "turn.h"

namespace {

constexpr unsigned kMessageId = 1;

void require(ucs_status_t status, const char* what) {
  if (status != UCS_OK) throw std::runtime_error(std::string(what) + ": " + ucs_status_string(status));
}

class UcxContender : public turn::Contender {
 public:
  explicit UcxContender(const turn::Seat& seat) {
    if (seat.size != 2) throw std::runtime_error("the active message contender is made for 2 ranks");
    start_worker();
    publish_address(seat);
    connect(seat);
  }
  ~UcxContender() override {
    const void* closing = ucp_ep_close_nb(endpoint_, UCP_EP_CLOSE_MODE_FORCE);
    if (UCS_PTR_IS_PTR(closing)) finish(const_cast<void*>(closing));
    ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
  }

  std::vector<std::string> ops() const override { return {"send_recv", "stream", "stream_in_place"}; }
  std::string version() const override { return std::string("UCX ") + ucp_get_version_string(); }

  void send(const std::byte* buffer, std::size_t bytes, int) override { finish(post_send(buffer, bytes)); }
  void recv(std::byte* buffer, std::size_t bytes, int) override {
    post_recv(buffer, bytes);
    await_recvs(posted_);
  }

  void stream_send(const std::byte* buffers, std::size_t bytes, std::size_t messages, int) override {
    std::array<void*, turn::kStreamWindow> requests{};
    for (std::size_t i = 0; i < messages; ++i) {
      const std::size_t slot = i % turn::kStreamWindow;
      finish(requests[slot]);
      requests[slot] = post_send(buffers + slot * bytes, bytes);
    }
    for (void* request : requests) finish(request);
  }
  void stream_recv(std::byte* buffers, std::size_t bytes, std::size_t messages, int) override {
    for (std::size_t i = 0; i < messages; ++i) {
      if (i >= turn::kStreamWindow) await_recvs(posted_ - turn::kStreamWindow + 1);
      post_recv(buffers + i % turn::kStreamWindow * bytes, bytes);
    }
    await_recvs(posted_);
  }

 private:
  /// A message that came before its receive was posted; UCX keeps the data until it is fetched or released.
  struct Arrival {
    void* data;
    std::size_t bytes;
    bool rendezvous;
  };

  void start_worker() {
    ucp_config_t* config = nullptr;
    require(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM;
    const ucs_status_t status = ucp_init(&params, config, &context_);
    ucp_config_release(config);
    require(status, "ucp_init");
    ucp_worker_params_t worker_params{};
    worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker_params.thread_mode = UCS_THREAD_MODE_SINGLE;
    require(ucp_worker_create(context_, &worker_params, &worker_), "ucp_worker_create");
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = kMessageId;
    handler.cb = on_message;
    handler.arg = this;
    require(ucp_worker_set_am_recv_handler(worker_, &handler), "ucp_worker_set_am_recv_handler");
  }

  static std::string address_file(const turn::Seat& seat, int rank) {
    return seat.directory + "/ucx." + std::to_string(rank);
  }

  void publish_address(const turn::Seat& seat) {
    ucp_address_t* address = nullptr;
    std::size_t bytes = 0;
    require(ucp_worker_get_address(worker_, &address, &bytes), "ucp_worker_get_address");
    const std::string name = address_file(seat, seat.rank);
    std::ofstream(name + ".part").write(reinterpret_cast<const char*>(address), static_cast<std::streamsize>(bytes));
    ucp_worker_release_address(worker_, address);
    std::filesystem::rename(name + ".part", name);
  }

  void connect(const turn::Seat& seat) {
    const std::string name = address_file(seat, 1 - seat.rank);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!std::filesystem::exists(name)) {
      if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("the other rank did not come");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    std::ifstream file(name, std::ios::binary);
    const std::string address((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    require(ucp_ep_create(worker_, &params, &endpoint_), "ucp_ep_create");
  }

  void finish(void* request) {
    if (request == nullptr) return;
    if (UCS_PTR_IS_ERR(request)) require(UCS_PTR_STATUS(request), "active message");
    while (ucp_request_check_status(request) == UCS_INPROGRESS) ucp_worker_progress(worker_);
    const ucs_status_t status = ucp_request_check_status(request);
    ucp_request_free(request);
    require(status, "active message");
  }

  void* post_send(const std::byte* buffer, std::size_t bytes) {
    ucp_request_param_t params{};
    return ucp_am_send_nbx(endpoint_, kMessageId, nullptr, 0, buffer, bytes, &params);
  }

  void post_recv(std::byte* buffer, std::size_t bytes) {
    ++posted_;
    if (arrivals_.empty()) {
      targets_.push_back({buffer, bytes});
      return;
    }
    const Arrival arrival = arrivals_.front();
    arrivals_.pop_front();
    if (arrival.rendezvous) {
      fetch(arrival.data, arrival.bytes, buffer);
    } else {
      std::memcpy(buffer, arrival.data, arrival.bytes);
      ucp_am_data_release(worker_, arrival.data);
      ++received_;
    }
  }

  // Receives end in the order of posting here: rendezvous fetches of one endpoint are equal in size and serial.
  void await_recvs(std::uint64_t count) {
    while (received_ < count) ucp_worker_progress(worker_);
  }

  void fetch(void* descriptor, std::size_t bytes, std::byte* to) {
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    params.cb.recv_am = on_fetched;
    params.user_data = this;
    void* request = ucp_am_recv_data_nbx(worker_, descriptor, to, bytes, &params);
    if (UCS_PTR_IS_ERR(request)) require(UCS_PTR_STATUS(request), "ucp_am_recv_data_nbx");
    if (request == nullptr) ++received_;
  }

  static void on_fetched(void* request, ucs_status_t status, std::size_t, void* self) {
    if (status == UCS_OK) ++static_cast<UcxContender*>(self)->received_;
    ucp_request_free(request);
  }

  static ucs_status_t on_message(void* self, const void*, std::size_t, void* data, std::size_t bytes,
                                 const ucp_am_recv_param_t* params) {
    auto& me = *static_cast<UcxContender*>(self);
    const bool rendezvous = params->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
    if (!me.targets_.empty()) {
      const Target target = me.targets_.front();
      me.targets_.pop_front();
      if (rendezvous) {
        me.fetch(data, bytes, target.buffer);
        return UCS_INPROGRESS;
      }
      std::memcpy(target.buffer, data, bytes);
      ++me.received_;
      return UCS_OK;
    }
    if (rendezvous || (params->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA)) {
      me.arrivals_.push_back({data, bytes, rendezvous});
      return UCS_INPROGRESS;
    }
    return UCS_ERR_UNSUPPORTED;
  }

  struct Target {
    std::byte* buffer;
    std::size_t bytes;
  };
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_ep_h endpoint_ = nullptr;
  std::deque<Target> targets_;
  std::deque<Arrival> arrivals_;
  std::uint64_t posted_ = 0;
  std::uint64_t received_ = 0;
};

}  // namespace

int main() {
  const turn::Seat seat = turn::take_seat();
  try {
    UcxContender contender(seat);
    return turn::serve(seat, contender);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ucx did not start: %s\n", error.what());
    return 1;
  }
}
