#include "slipring/work.h"

#include "base/status.h"
#include "engine/async/lanes.h"
#include "engine/raise.h"

namespace slipring {

Work::Work() noexcept = default;
Work::Work(Work&&) noexcept = default;
Work& Work::operator=(Work&&) noexcept = default;
Work::~Work() = default;
Work::Work(std::shared_ptr<engine::WorkState> operation) noexcept : operation_(std::move(operation)) {}

bool Work::test() {
  if (!operation_) return true;
  if (!operation_->lanes->test(*operation_)) return false;
  engine::raise_unless_ok(operation_->result);
  return true;
}

void Work::wait() {
  if (!operation_) return;
  engine::raise_unless_ok(operation_->lanes->wait(*operation_, base::Deadline::never()));
  engine::raise_unless_ok(operation_->result);
}

bool Work::wait_for(std::chrono::nanoseconds longest) {
  if (!operation_) return true;
  if (!operation_->lanes->wait(*operation_, base::Deadline::after(longest))) return false;
  engine::raise_unless_ok(operation_->result);
  return true;
}

void Work::cancel() {
  if (operation_) operation_->lanes->cancel(operation_);
}

}  // namespace slipring
