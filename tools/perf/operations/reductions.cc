#include "tools/perf/buffer.h"
#include "tools/perf/in_flight.h"
#include "tools/perf/operations/operations.h"
#include "tools/perf/options.h"
#include "tools/perf/pattern.h"

namespace slipring::tools::perf {
namespace {

/// all_reduce, or reduce: the same but that only the root gets the result.
class Reduction final : public Operation {
 public:
  Reduction(Communicator& comm, const Options& options, int root)
      : comm_(comm),
        root_(root),
        inflight_(options.inflight),
        dtype_(options.dtype),
        op_(options.redop),
        in_place_(!options.out_of_place),
        input_(comm, options.max_bytes, options.heap),
        output_(comm, in_place_ ? 0 : options.max_bytes, options.heap) {}

  void set_up(std::size_t count, Data data) override {
    count_ = count;
    data_ = data;
    pattern_ = Pattern(dtype_, op_, comm_.size(), ++seed_);
    if (data == Data::checked) {
      pattern_.fill(input_.data(), count, comm_.rank());
    } else {
      fill_constant(input_.data(), count, dtype_, fixed_point(op_));
    }
    if (!in_place_) fill_garbage(output_.data(), count * dtype_bytes(dtype_));
  }

  void run(std::int64_t times) override {
    const auto call = [&] {
      if (root_ < 0) return comm_.all_reduce(input_.data(), result(), count_, dtype_, op_);
      comm_.reduce(input_.data(), result(), count_, dtype_, op_, root_);
    };
    run_loop(inflight_, times, call, [&] {
      return root_ < 0 ? comm_.iall_reduce(input_.data(), result(), count_, dtype_, op_)
                       : comm_.ireduce(input_.data(), result(), count_, dtype_, op_, root_);
    });
  }

  std::uint64_t wrong() const override {
    if (root_ >= 0 && root_ != comm_.rank())  // gets nothing, and its input stays as it is
      return data_ == Data::timed ? wrong_constant(input_.data(), count_, dtype_, fixed_point(op_))
                                  : pattern_.wrong_data(input_.data(), count_, comm_.rank());
    if (data_ == Data::timed) return wrong_constant(result(), count_, dtype_, fixed_point(op_));
    const std::uint64_t damaged_input =
        in_place_ ? 0 : pattern_.wrong_data(input_.data(), count_, comm_.rank());
    return damaged_input + pattern_.wrong_reduction(result(), count_);
  }

  std::size_t buffer_bytes() const override { return input_.bytes() + output_.bytes(); }

 private:
  std::byte* result() const { return in_place_ ? input_.data() : output_.data(); }

  Communicator& comm_;
  int root_;  ///< -1: every rank gets the result
  int inflight_;
  DType dtype_;
  ReduceOp op_;
  bool in_place_;
  Buffer input_;
  Buffer output_;
  std::size_t count_ = 0;
  Data data_ = Data::checked;
  std::uint64_t seed_ = 0;
  Pattern pattern_{dtype_, op_, comm_.size(), seed_};
};

}  // namespace

const OperationInfo kAllReduce{
    .name = "all_reduce",
    .meaning = "every rank gets the reduction of all ranks' buffers",
    .algorithm_key = "all_reduce.algorithm",
    .reduces = true,
    .has_out_of_place_form = true,
    .has_asynchronous_form = true,
    .bus_factor = [](int ranks) { return 2.0 * (ranks - 1) / ranks; },
    .make = [](Communicator& comm, const Options& options) -> std::unique_ptr<Operation> {
      return std::make_unique<Reduction>(comm, options, -1);
    },
};

const OperationInfo kReduce{
    .name = "reduce",
    .meaning = "the root gets the reduction of all ranks' buffers",
    .algorithm_key = "reduce.algorithm",
    .reduces = true,
    .rooted = true,
    .has_out_of_place_form = true,
    .has_asynchronous_form = true,
    .make = [](Communicator& comm, const Options& options) -> std::unique_ptr<Operation> {
      return std::make_unique<Reduction>(comm, options, options.root);
    },
};

}  // namespace slipring::tools::perf
