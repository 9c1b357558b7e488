#include "tools/perf/buffer.h"
#include "tools/perf/operations/operations.h"
#include "tools/perf/options.h"
#include "tools/perf/pattern.h"

namespace slipring::tools::perf {
namespace {

/// Ranks 0 and 1 send each other a message in turn; other ranks stand by.
class SendRecv final : public Operation {
 public:
  SendRecv(Communicator& comm, const Options& options)
      : comm_(comm),
        dtype_(options.dtype),
        rank_(comm.rank()),
        out_(comm, rank_ < 2 ? options.max_bytes : 0, options.heap),
        in_(comm, rank_ < 2 ? options.max_bytes : 0, options.heap) {}

  void set_up(std::size_t count, Data) override {
    count_ = count;
    pattern_ = Pattern(dtype_, ReduceOp::sum, comm_.size(), ++seed_);
    if (rank_ > 1) return;
    pattern_.fill(out_.data(), count, rank_);
    fill_garbage(in_.data(), bytes());
  }

  void run(std::int64_t times) override {
    if (rank_ > 1) return;
    const int peer = 1 - rank_;
    for (std::int64_t i = 0; i < times; ++i) {
      if (rank_ == 0) comm_.send(out_.data(), bytes(), peer);
      comm_.recv(in_.data(), bytes(), peer);
      if (rank_ == 1) comm_.send(out_.data(), bytes(), peer);
    }
  }

  std::uint64_t wrong() const override {
    return rank_ > 1 ? 0 : pattern_.wrong_data(in_.data(), count_, 1 - rank_);
  }
  std::size_t buffer_bytes() const override { return out_.bytes() + in_.bytes(); }

 private:
  std::size_t bytes() const { return count_ * dtype_bytes(dtype_); }

  Communicator& comm_;
  DType dtype_;
  int rank_;
  Buffer out_;
  Buffer in_;
  std::size_t count_ = 0;
  std::uint64_t seed_ = 0;
  Pattern pattern_{dtype_, ReduceOp::sum, comm_.size(), seed_};
};

}  // namespace

const OperationInfo kSendRecv{
    .name = "send_recv",
    .meaning = "half a round trip between ranks 0 and 1",
    .is_collective = false,
    .min_ranks = 2,
    .operations_per_run = 2,
    .make = [](Communicator& comm, const Options& options) -> std::unique_ptr<Operation> {
      return std::make_unique<SendRecv>(comm, options);
    },
};

}  // namespace slipring::tools::perf
