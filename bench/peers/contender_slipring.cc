// Contender over Slipring's public C++ API, at its default configuration; SLIPRING_* variables apply as always.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>

#include "slipring/communicator.h"
#include "turn.h"

namespace {

// Started a second time, as what the two-byte types are compared with.
const bool kAsFloats = std::getenv("BENCH_AS_FLOATS") != nullptr;

class SlipringContender : public turn::Contender {
 public:
  explicit SlipringContender(const turn::Seat& seat)
      : comm_(slipring::Communicator::join({.rank = seat.rank,
                                            .size = seat.size,
                                            .store = "file://" + seat.directory + "/store",
                                            .job_token = seat.directory,
                                            .config = {}})) {}

  std::vector<std::string> ops() const override {
    if (kAsFloats) return {"all_reduce_bf16", "all_reduce_f16"};
    return {"send_recv",  "stream",    "stream_in_place", "all_reduce", "all_gather",      "reduce_scatter",
            "all_to_all", "broadcast", "barrier",         "decode",     "all_reduce_bf16", "all_reduce_f16"};
  }
  std::string version() const override { return "Slipring " SLIPRING_VERSION; }

  void all_reduce(float* buffer, std::size_t count) override {
    comm_.all_reduce(buffer, buffer, count, slipring::DType::f32, slipring::ReduceOp::sum);
  }
  void all_reduce_halves(std::byte* buffer, std::size_t bytes, bool brain) override {
    const slipring::DType half = brain ? slipring::DType::bf16 : slipring::DType::f16;
    const slipring::DType dtype = kAsFloats ? slipring::DType::f32 : half;
    comm_.all_reduce(buffer, buffer, bytes / slipring::dtype_bytes(dtype), dtype, slipring::ReduceOp::sum);
  }
  void all_gather(const float* in, float* out, std::size_t count) override { comm_.all_gather(in, out, count, slipring::DType::f32); }
  void reduce_scatter(const float* in, float* out, std::size_t count) override {
    comm_.reduce_scatter(in, out, count, slipring::DType::f32, slipring::ReduceOp::sum);
  }
  void all_to_all(const float* in, float* out, std::size_t count) override { comm_.all_to_all(in, out, count, slipring::DType::f32); }
  void broadcast(float* buffer, std::size_t count) override { comm_.broadcast(buffer, count, slipring::DType::f32, 0); }
  void barrier() override { comm_.barrier(); }
  void send(const std::byte* buffer, std::size_t bytes, int peer) override { comm_.send(buffer, bytes, peer); }
  void recv(std::byte* buffer, std::size_t bytes, int peer) override { comm_.recv(buffer, bytes, peer); }

  // In place: the floats are stored into the slot and summed out of it; no buffer on either side.
  void produce(std::byte*, std::size_t bytes, std::size_t messages, float value, int peer) override {
    if (!producer_) producer_ = comm_.open_producer(peer);
    const std::size_t largest = producer_->max_loan_bytes() / sizeof(float) * sizeof(float);
    for (std::size_t left = bytes * messages; left > 0;) {
      const std::size_t part = std::min(left, std::min(bytes, largest));
      turn::store_floats(producer_->loan(part).data(), part, value);
      producer_->publish();
      left -= part;
    }
  }
  double consume(std::byte*, std::size_t bytes, std::size_t messages, int peer) override {
    if (!consumer_) consumer_ = comm_.open_consumer(peer);
    double sum = 0;
    for (std::size_t left = bytes * messages; left > 0;) {
      const auto part = consumer_->peek();
      sum += turn::sum_floats(part.data(), part.size());
      left -= part.size();
      consumer_->release();
    }
    return sum;
  }

 private:
  slipring::Communicator comm_;
  std::optional<slipring::Producer> producer_;
  std::optional<slipring::Consumer> consumer_;
};

}  // namespace

int main() {
  const turn::Seat seat = turn::take_seat();
  try {
    SlipringContender contender(seat);
    return turn::serve(seat, contender);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "slipring did not start: %s\n", error.what());
    return 1;
  }
}
