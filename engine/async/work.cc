#include "slipring/work.h"

#include <optional>

#include "base/status.h"
#include "engine/async/lanes.h"
#include "engine/communicator_calls.h"
#include "engine/raise.h"

namespace slipring {
namespace {

using engine::WorkState;

/// What has finished may be asked about by whoever holds it.
bool over(const WorkState& operation) {
  return operation.finished.load(std::memory_order_acquire);  // WORK_FINISHED
}

/// A call of the communicator's, unless its own thread lets the operation advance.
class Asking {
 public:
  explicit Asking(WorkState& operation) {
    if (operation.lanes->in_forked_child()) [[unlikely]]
      throw Error(Status(StatusCode::invalid_argument, "this process is a forked child of the one that started the operation; only the "
                         "parent may test, wait for or cancel it"));
    if (!operation.lanes->has_own_thread()) entered_.emplace(*operation.communicator);
  }

 private:
  std::optional<engine::Entered> entered_;
};

}  // namespace

Work::Work() noexcept = default;
Work::Work(Work&&) noexcept = default;
Work& Work::operator=(Work&&) noexcept = default;
Work::~Work() = default;
Work::Work(std::shared_ptr<engine::WorkState> operation) noexcept : operation_(std::move(operation)) {}

bool Work::test() {
  if (!operation_) return true;
  if (!over(*operation_)) {
    const Asking asking(*operation_);
    if (!operation_->lanes->test(*operation_)) return false;
  }
  engine::raise_unless_ok(operation_->result);
  return true;
}

void Work::wait() {
  if (!operation_) return;
  if (!over(*operation_)) {
    const Asking asking(*operation_);
    engine::raise_unless_ok(operation_->lanes->wait(*operation_, base::Deadline::never()));
  }
  engine::raise_unless_ok(operation_->result);
}

bool Work::wait_for(std::chrono::nanoseconds longest) {
  if (!operation_) return true;
  if (!over(*operation_)) {
    const Asking asking(*operation_);
    if (!operation_->lanes->wait(*operation_, base::Deadline::after(longest))) return false;
  }
  engine::raise_unless_ok(operation_->result);
  return true;
}

void Work::cancel() {
  if (!operation_ || over(*operation_)) return;
  const Asking asking(*operation_);
  operation_->lanes->cancel(operation_);
}

}  // namespace slipring
