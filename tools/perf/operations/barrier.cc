#include "tools/perf/operations/operations.h"
#include "tools/perf/options.h"

namespace slipring::tools::perf {
namespace {

class Barrier final : public Operation {
 public:
  explicit Barrier(Communicator& comm) : comm_(comm) {}

  void set_up(std::size_t, Data) override {}
  void run(std::int64_t times) override {
    for (std::int64_t i = 0; i < times; ++i) comm_.barrier();
  }
  std::uint64_t wrong() const override { return 0; }
  std::size_t buffer_bytes() const override { return 0; }

 private:
  Communicator& comm_;
};

}  // namespace

const OperationInfo kBarrier{
    .name = "barrier",
    .meaning = "no rank leaves before all have entered",
    .has_size = false,
    .make = [](Communicator& comm, const Options&) -> std::unique_ptr<Operation> {
      return std::make_unique<Barrier>(comm);
    },
};

}  // namespace slipring::tools::perf
