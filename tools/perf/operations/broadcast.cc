#include "tools/perf/buffer.h"
#include "tools/perf/in_flight.h"
#include "tools/perf/operations/operations.h"
#include "tools/perf/options.h"
#include "tools/perf/pattern.h"

namespace slipring::tools::perf {
namespace {

class Broadcast final : public Operation {
 public:
  Broadcast(Communicator& comm, const Options& options)
      : comm_(comm),
        dtype_(options.dtype),
        root_(options.root),
        inflight_(options.inflight),
        buffer_(comm, options.max_bytes, options.heap) {}

  void set_up(std::size_t count, Data) override {
    count_ = count;
    pattern_ = Pattern(dtype_, ReduceOp::sum, comm_.size(), ++seed_);
    if (comm_.rank() == root_) {
      pattern_.fill(buffer_.data(), count, root_);
    } else {
      fill_garbage(buffer_.data(), count * dtype_bytes(dtype_));
    }
  }

  void run(std::int64_t times) override {
    run_loop(inflight_, times, [&] { comm_.broadcast(buffer_.data(), count_, dtype_, root_); },
             [&] { return comm_.ibroadcast(buffer_.data(), count_, dtype_, root_); });
  }

  std::uint64_t wrong() const override { return pattern_.wrong_data(buffer_.data(), count_, root_); }
  std::size_t buffer_bytes() const override { return buffer_.bytes(); }

 private:
  Communicator& comm_;
  DType dtype_;
  int root_;
  int inflight_;
  Buffer buffer_;
  std::size_t count_ = 0;
  std::uint64_t seed_ = 0;
  Pattern pattern_{dtype_, ReduceOp::sum, comm_.size(), seed_};
};

}  // namespace

const OperationInfo kBroadcast{
    .name = "broadcast",
    .meaning = "every rank gets the root's buffer",
    .algorithm_key = "broadcast.algorithm",
    .rooted = true,
    .has_asynchronous_form = true,
    .make = [](Communicator& comm, const Options& options) -> std::unique_ptr<Operation> {
      return std::make_unique<Broadcast>(comm, options);
    },
};

}  // namespace slipring::tools::perf
