#include "tools/perf/in_flight.h"
#include "tools/perf/operations/operations.h"
#include "tools/perf/options.h"

namespace slipring::tools::perf {
namespace {

class Barrier final : public Operation {
 public:
  Barrier(Communicator& comm, const Options& options) : comm_(comm), inflight_(options.inflight) {}

  void set_up(std::size_t, Data) override {}
  void run(std::int64_t times) override {
    run_loop(inflight_, times, [&] { comm_.barrier(); }, [&] { return comm_.ibarrier(); });
  }
  std::uint64_t wrong() const override { return 0; }
  std::size_t buffer_bytes() const override { return 0; }

 private:
  Communicator& comm_;
  int inflight_;
};

}  // namespace

const OperationInfo kBarrier{
    .name = "barrier",
    .meaning = "no rank leaves before all have entered",
    .has_size = false,
    .has_asynchronous_form = true,
    .make = [](Communicator& comm, const Options& options) -> std::unique_ptr<Operation> {
      return std::make_unique<Barrier>(comm, options);
    },
};

}  // namespace slipring::tools::perf
