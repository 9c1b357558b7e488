// The operations that move one block per rank: all_gather, gather, scatter, all_to_all and reduce_scatter. They differ in
// who holds the whole and in the call, so one class measures all.
#include "tools/perf/buffer.h"
#include "tools/perf/in_flight.h"
#include "tools/perf/operations/operations.h"
#include "tools/perf/options.h"
#include "tools/perf/pattern.h"

namespace slipring::tools::perf {
namespace {

enum class Holds : std::uint8_t { nothing, block, whole };

struct Call {
  Communicator& comm;
  const std::byte* in;
  std::byte* out;
  std::size_t count;  ///< elements of a block
  DType dtype;
  ReduceOp op;
  int root;
};

struct BlockForm {
  Holds (*input)(bool is_root);
  Holds (*output)(bool is_root);
  void (*call)(const Call& c);
  Work (*start)(const Call& c);
  /// Elements of this rank's output that are wrong.
  std::uint64_t (*wrong)(const Call& c, const Pattern& pattern);
};

std::uint64_t wrong_gathered(const Call& c, const Pattern& pattern) {
  std::uint64_t wrong = 0;
  for (int r = 0; r < c.comm.size(); ++r)
    wrong += pattern.wrong_data(c.out + static_cast<std::size_t>(r) * c.count * dtype_bytes(c.dtype), c.count, r);
  return wrong;
}

std::size_t own_first(const Call& c) { return static_cast<std::size_t>(c.comm.rank()) * c.count; }

constexpr BlockForm kAllGatherForm{
    .input = [](bool) { return Holds::block; },
    .output = [](bool) { return Holds::whole; },
    .call = [](const Call& c) { c.comm.all_gather(c.in, c.out, c.count, c.dtype); },
    .start = [](const Call& c) { return c.comm.iall_gather(c.in, c.out, c.count, c.dtype); },
    .wrong = wrong_gathered,
};
constexpr BlockForm kGatherForm{
    .input = [](bool) { return Holds::block; },
    .output = [](bool is_root) { return is_root ? Holds::whole : Holds::nothing; },
    .call = [](const Call& c) { c.comm.gather(c.in, c.out, c.count, c.dtype, c.root); },
    .start = [](const Call& c) { return c.comm.igather(c.in, c.out, c.count, c.dtype, c.root); },
    .wrong = [](const Call& c, const Pattern& p) { return c.comm.rank() == c.root ? wrong_gathered(c, p) : 0; },
};
constexpr BlockForm kScatterForm{
    .input = [](bool is_root) { return is_root ? Holds::whole : Holds::nothing; },
    .output = [](bool) { return Holds::block; },
    .call = [](const Call& c) { c.comm.scatter(c.in, c.out, c.count, c.dtype, c.root); },
    .start = [](const Call& c) { return c.comm.iscatter(c.in, c.out, c.count, c.dtype, c.root); },
    .wrong = [](const Call& c, const Pattern& p) { return p.wrong_data(c.out, c.count, c.root, own_first(c)); },
};
constexpr BlockForm kAllToAllForm{
    .input = [](bool) { return Holds::whole; },
    .output = [](bool) { return Holds::whole; },
    .call = [](const Call& c) { c.comm.all_to_all(c.in, c.out, c.count, c.dtype); },
    .start = [](const Call& c) { return c.comm.iall_to_all(c.in, c.out, c.count, c.dtype); },
    .wrong =
        [](const Call& c, const Pattern& p) {
          std::uint64_t wrong = 0;
          for (int r = 0; r < c.comm.size(); ++r)
            wrong += p.wrong_data(c.out + static_cast<std::size_t>(r) * c.count * dtype_bytes(c.dtype), c.count, r, own_first(c));
          return wrong;
        },
};
constexpr BlockForm kReduceScatterForm{
    .input = [](bool) { return Holds::whole; },
    .output = [](bool) { return Holds::block; },
    .call = [](const Call& c) { c.comm.reduce_scatter(c.in, c.out, c.count, c.dtype, c.op); },
    .start = [](const Call& c) { return c.comm.ireduce_scatter(c.in, c.out, c.count, c.dtype, c.op); },
    .wrong = [](const Call& c, const Pattern& p) { return p.wrong_reduction(c.out, c.count, own_first(c)); },
};

class BlockOperation final : public Operation {
 public:
  BlockOperation(Communicator& comm, const Options& options, const BlockForm& form)
      : form_(form),
        input_holds_(form.input(comm.rank() == options.root)),
        output_holds_(form.output(comm.rank() == options.root)),
        ranks_(static_cast<std::size_t>(comm.size())),
        inflight_(options.inflight),
        input_(comm, bytes_of(input_holds_, options.max_bytes), options.heap),
        output_(comm, bytes_of(output_holds_, options.max_bytes), options.heap),
        call_{comm, input_.data(), output_.data(), 0, options.dtype, options.redop, options.root} {}

  // The input is not touched, so that the data of one run is good for any number.
  void set_up(std::size_t count, Data) override {
    call_.count = count / ranks_;
    pattern_ = Pattern(call_.dtype, call_.op, call_.comm.size(), ++seed_);
    pattern_.fill(input_.data(), bytes_of(input_holds_, count), call_.comm.rank());
    fill_garbage(output_.data(), bytes_of(output_holds_, count * dtype_bytes(call_.dtype)));
  }

  void run(std::int64_t times) override {
    run_loop(inflight_, times, [&] { form_.call(call_); }, [&] { return form_.start(call_); });
  }

  std::uint64_t wrong() const override {
    const std::size_t elements = bytes_of(input_holds_, call_.count * ranks_);
    return pattern_.wrong_data(input_.data(), elements, call_.comm.rank()) + form_.wrong(call_, pattern_);
  }
  std::size_t buffer_bytes() const override { return input_.bytes() + output_.bytes(); }

 private:
  /// The part of `whole`, in whatever unit.
  std::size_t bytes_of(Holds holds, std::size_t whole) const {
    return holds == Holds::nothing ? 0 : holds == Holds::block ? whole / ranks_ : whole;
  }

  const BlockForm& form_;
  Holds input_holds_, output_holds_;
  std::size_t ranks_;
  int inflight_;
  Buffer input_, output_;
  Call call_;
  std::uint64_t seed_ = 0;
  Pattern pattern_{DType::f32, ReduceOp::sum, 1, 0};
};

template <const BlockForm& form>
std::unique_ptr<Operation> make(Communicator& comm, const Options& options) {
  return std::make_unique<BlockOperation>(comm, options, form);
}

/// Of `ranks` blocks, all but a rank's own cross its link.
double others_share(int ranks) { return static_cast<double>(ranks - 1) / ranks; }

}  // namespace

const OperationInfo kAllGather{
    .name = "all_gather",
    .meaning = "every rank gets the blocks of all, one after the other",
    .algorithm_key = "all_gather.algorithm",
    .in_blocks = true,
    .has_asynchronous_form = true,
    .bus_factor = others_share,
    .make = make<kAllGatherForm>,
};
const OperationInfo kGather{
    .name = "gather",
    .meaning = "the root gets the blocks of all, one after the other",
    .algorithm_key = "gather.algorithm",
    .rooted = true,
    .in_blocks = true,
    .has_asynchronous_form = true,
    .bus_factor = others_share,
    .make = make<kGatherForm>,
};
const OperationInfo kScatter{
    .name = "scatter",
    .meaning = "every rank gets its block of the root's buffer",
    .algorithm_key = "scatter.algorithm",
    .rooted = true,
    .in_blocks = true,
    .has_asynchronous_form = true,
    .bus_factor = others_share,
    .make = make<kScatterForm>,
};
const OperationInfo kAllToAll{
    .name = "all_to_all",
    .meaning = "every rank gives each rank one block",
    .algorithm_key = "all_to_all.algorithm",
    .in_blocks = true,
    .has_asynchronous_form = true,
    .bus_factor = others_share,
    .make = make<kAllToAllForm>,
};
const OperationInfo kReduceScatter{
    .name = "reduce_scatter",
    .meaning = "every rank gets its block of the reduction of all ranks' buffers",
    .algorithm_key = "reduce_scatter.algorithm",
    .reduces = true,
    .in_blocks = true,
    .has_asynchronous_form = true,
    .bus_factor = others_share,
    .make = make<kReduceScatterForm>,
};

}  // namespace slipring::tools::perf
