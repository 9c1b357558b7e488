// The public C++ API over CommunicatorImpl: the edge at which Status becomes Error.
#include "slipring/communicator.h"

#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "engine/channel_endpoint.h"
#include "engine/communicator_calls.h"

namespace slipring {
namespace engine {

void refuse_empty() {
  throw Error(Status(StatusCode::invalid_argument, "this Communicator is empty: it was moved from, closed or never joined"));
}
void refuse_device(Device device) {
  throw Error(base::error(StatusCode::unsupported, "buffer on device kind {}: this build reaches host memory only; copy it to the host first",
                          static_cast<int>(device.kind)));
}

void Entered::enter() {
  const int own = static_cast<int>(::gettid());
  int inside = 0;
  // acquire and release: a second thread that comes after the first has left is no misuse, and sees what it did.
  if (word_.compare_exchange_strong(inside, own, std::memory_order_acquire)) {
    outermost_ = true;
  } else if (inside != own) {
    throw Error(base::error(StatusCode::invalid_argument, "threads {} and {} are in one communicator at the same time; one thread at a "
                            "time may call it, make a second one with split() for a second thread", inside, own));
  }
}
void Entered::leave() noexcept {
  if (outermost_) word_.store(0, std::memory_order_release);
}

}  // namespace engine

using engine::BlockShape;
using engine::CommunicatorImpl;
using engine::host;
using engine::LaneKey;
using engine::make;
using engine::run;
using engine::use;
using engine::value_or_raise;

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

Communicator Communicator::split(int color, int key) {
  return Communicator(make(impl_, [=](CommunicatorImpl& c) { return c.split(color, key); }));
}
Communicator Communicator::create_group(std::span<const int> ranks) {
  return Communicator(make(impl_, [=](CommunicatorImpl& c) { return c.create_group(ranks); }));
}

int Communicator::rank() const noexcept { return impl_ ? impl_->rank() : -1; }
int Communicator::size() const noexcept { return impl_ ? impl_->size() : 0; }
int Communicator::local_rank() const noexcept { return rank(); }
int Communicator::local_size() const noexcept { return size(); }
int Communicator::nodes() const noexcept { return impl_ ? 1 : 0; }

void Communicator::all_reduce(ConstBuffer in, Buffer out, std::size_t count, DType dtype, ReduceOp op) {
  run(impl_, {}, [&](CommunicatorImpl& c) { return c.all_reduce(host(in), host(out), count, dtype, op); });
}
void Communicator::broadcast(Buffer buffer, std::size_t count, DType dtype, int root) {
  run(impl_, {}, [&](CommunicatorImpl& c) { return c.broadcast(host(buffer), count, dtype, root); });
}
void Communicator::barrier() {
  run(impl_, {}, [&](CommunicatorImpl& c) { return c.barrier(); });
}

void Communicator::reduce(ConstBuffer in, Buffer out, std::size_t count, DType dtype, ReduceOp op, int root) {
  run(impl_, {}, [&](CommunicatorImpl& c) { return c.reduce(host(in), host(out), count, dtype, op, root); });
}
void Communicator::all_gather(ConstBuffer in, Buffer out, std::size_t count, DType dtype) {
  run(impl_, {}, [&](CommunicatorImpl& c) { return c.all_gather(host(in), host(out), {1, count}, dtype); });
}
void Communicator::all_gather(ConstBuffer in, Buffer out, Shape shape, int dim, DType dtype) {
  const BlockShape block = value_or_raise(BlockShape::concatenated(shape, dim));
  run(impl_, {}, [&](CommunicatorImpl& c) { return c.all_gather(host(in), host(out), block, dtype); });
}
void Communicator::all_gatherv(ConstBuffer in, Buffer out, std::span<const std::size_t> counts, DType dtype) {
  run(impl_, {}, [&](CommunicatorImpl& c) { return c.all_gatherv(host(in), host(out), counts, dtype); });
}
void Communicator::reduce_scatter(ConstBuffer in, Buffer out, std::size_t count, DType dtype, ReduceOp op) {
  run(impl_, {}, [&](CommunicatorImpl& c) { return c.reduce_scatter(host(in), host(out), {1, count}, dtype, op); });
}
void Communicator::reduce_scatter(ConstBuffer in, Buffer out, Shape shape, int dim, DType dtype, ReduceOp op) {
  const BlockShape block = value_or_raise(BlockShape::cut(shape, dim, use(impl_).size()));
  run(impl_, {}, [&](CommunicatorImpl& c) { return c.reduce_scatter(host(in), host(out), block, dtype, op); });
}
void Communicator::reduce_scatterv(ConstBuffer in, Buffer out, std::span<const std::size_t> counts, DType dtype, ReduceOp op) {
  run(impl_, {}, [&](CommunicatorImpl& c) { return c.reduce_scatterv(host(in), host(out), counts, dtype, op); });
}
bool Communicator::gather(ConstBuffer in, Buffer out, std::size_t count, DType dtype, int root, GatherMode mode) {
  run(impl_, {}, [&](CommunicatorImpl& c) { return c.gather(host(in), host(out), {1, count}, dtype, root, mode); });
  return mode == GatherMode::spmd || root == rank();
}
bool Communicator::gather(ConstBuffer in, Buffer out, Shape shape, int dim, DType dtype, int root, GatherMode mode) {
  const BlockShape block = value_or_raise(BlockShape::concatenated(shape, dim));
  run(impl_, {}, [&](CommunicatorImpl& c) { return c.gather(host(in), host(out), block, dtype, root, mode); });
  return mode == GatherMode::spmd || root == rank();
}
void Communicator::gatherv(ConstBuffer in, std::size_t count, Buffer out, std::span<const std::size_t> counts, DType dtype, int root) {
  run(impl_, {}, [&](CommunicatorImpl& c) { return c.gatherv(host(in), count, host(out), counts, dtype, root); });
}
void Communicator::scatter(ConstBuffer in, Buffer out, std::size_t count, DType dtype, int root) {
  run(impl_, {}, [&](CommunicatorImpl& c) { return c.scatter(host(in), host(out), count, dtype, root); });
}
void Communicator::scatterv(ConstBuffer in, std::span<const std::size_t> counts, Buffer out, std::size_t count, DType dtype, int root) {
  run(impl_, {}, [&](CommunicatorImpl& c) { return c.scatterv(host(in), counts, host(out), count, dtype, root); });
}
void Communicator::all_to_all(ConstBuffer in, Buffer out, std::size_t count, DType dtype) {
  run(impl_, {}, [&](CommunicatorImpl& c) { return c.all_to_all(host(in), host(out), count, dtype); });
}
void Communicator::all_to_allv(ConstBuffer in, std::span<const std::size_t> in_counts, Buffer out,
                               std::span<const std::size_t> out_counts, DType dtype) {
  run(impl_, {}, [&](CommunicatorImpl& c) { return c.all_to_allv(host(in), in_counts, host(out), out_counts, dtype); });
}

void Communicator::send(const void* buffer, std::size_t bytes, int peer) {
  run(impl_, {.peer = peer}, [&](CommunicatorImpl& c) { return c.send(buffer, bytes, peer); });
}
void Communicator::recv(void* buffer, std::size_t bytes, int peer) {
  run(impl_, {.peer = peer, .receives = true}, [&](CommunicatorImpl& c) { return c.recv(buffer, bytes, peer); });
}

Producer Communicator::open_producer(int peer) {
  auto channel = make(impl_, [=](CommunicatorImpl& c) { return c.open_producer(peer); });
  return Producer(std::unique_ptr<Producer::Impl>(new Producer::Impl{std::move(channel)}));
}
Consumer Communicator::open_consumer(int peer) {
  auto channel = make(impl_, [=](CommunicatorImpl& c) { return c.open_consumer(peer); });
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
