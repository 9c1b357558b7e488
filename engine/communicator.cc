// The public C++ API over CommunicatorImpl: the edge at which Status becomes Error.
#include "slipring/communicator.h"

#include "base/log.h"
#include "base/status.h"
#include "engine/channel_endpoint.h"
#include "engine/communicator_impl.h"
#include "engine/raise.h"

namespace slipring {
namespace {

using engine::raise_unless_ok;
using engine::value_or_raise;

engine::CommunicatorImpl& use(const std::shared_ptr<engine::CommunicatorImpl>& impl) {
  if (!impl) [[unlikely]]
    throw Error(Status(StatusCode::invalid_argument, "this Communicator is empty: it was moved from, closed or never joined"));
  return *impl;
}

}  // namespace

Communicator::Communicator() noexcept = default;
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&& other) noexcept {
  if (this != &other) {
    close();
    impl_ = std::move(other.impl_);
  }
  return *this;
}
Communicator::~Communicator() { close(); }
Communicator::Communicator(std::shared_ptr<engine::CommunicatorImpl> impl) noexcept : impl_(std::move(impl)) {}

Communicator Communicator::join(const JobOptions& options) {
  return Communicator(value_or_raise(engine::CommunicatorImpl::join(options)));
}

int Communicator::rank() const noexcept { return impl_ ? impl_->rank() : -1; }
int Communicator::size() const noexcept { return impl_ ? impl_->size() : 0; }
int Communicator::local_rank() const noexcept { return rank(); }
int Communicator::local_size() const noexcept { return size(); }
int Communicator::nodes() const noexcept { return impl_ ? 1 : 0; }

void Communicator::all_reduce(const void* in, void* out, std::size_t count, DType dtype, ReduceOp op) {
  raise_unless_ok(use(impl_).all_reduce(in, out, count, dtype, op));
}
void Communicator::broadcast(void* buffer, std::size_t count, DType dtype, int root) {
  raise_unless_ok(use(impl_).broadcast(buffer, count, dtype, root));
}
void Communicator::barrier() { raise_unless_ok(use(impl_).barrier()); }
void Communicator::send(const void* buffer, std::size_t bytes, int peer) { raise_unless_ok(use(impl_).send(buffer, bytes, peer)); }
void Communicator::recv(void* buffer, std::size_t bytes, int peer) { raise_unless_ok(use(impl_).recv(buffer, bytes, peer)); }

Producer Communicator::open_producer(int peer) {
  auto channel = value_or_raise(use(impl_).open_producer(peer));
  return Producer(std::unique_ptr<Producer::Impl>(new Producer::Impl{std::move(channel)}));
}
Consumer Communicator::open_consumer(int peer) {
  auto channel = value_or_raise(use(impl_).open_consumer(peer));
  return Consumer(std::unique_ptr<Consumer::Impl>(new Consumer::Impl{std::move(channel)}));
}

void* Communicator::heap_allocate(std::size_t bytes) { return value_or_raise(use(impl_).heap_allocate(bytes)); }

void Communicator::heap_free(void* pointer) noexcept {
  if (!impl_ || pointer == nullptr) return;
  if (Status s = impl_->heap_free(pointer); !s) SLIPRING_LOG(error, communicator, "heap_free: {}", s.message());
}

Selection Communicator::explain(const std::string& operation, std::size_t bytes) const {
  return value_or_raise(use(impl_).explain(operation, bytes));
}

void Communicator::abort(const std::string& reason) noexcept {
  if (impl_) (void)impl_->abort(reason);
}
void Communicator::close() noexcept {
  if (!impl_) return;
  impl_->close();
}

}  // namespace slipring
