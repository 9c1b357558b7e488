// The public channel endpoints over transports/channel.h. Budget: one virtual call per loan, publish, peek, release.
#include "slipring/channel.h"

#include "base/status.h"
#include "engine/channel_endpoint.h"
#include "engine/message.h"
#include "engine/raise.h"

namespace slipring {
namespace {

using engine::raise_unless_ok;

[[noreturn, gnu::cold]] void refuse(StatusCode code, const char* text) { throw Error(Status(code, text)); }

template <class Impl>
Impl& use(const std::unique_ptr<Impl>& impl) {
  if (impl && !impl->closed) [[likely]] return *impl;
  if (impl) refuse(StatusCode::closed, "this side has closed the channel");
  refuse(StatusCode::invalid_argument, "this channel endpoint is empty: it was moved from, or never opened");
}

[[noreturn, gnu::cold]] void out_of_order(const char* call, const char* first) {
  throw Error(base::error(StatusCode::invalid_argument, "{} without a {} before it", call, first));
}

}  // namespace

Producer::Producer() noexcept = default;
Producer::Producer(Producer&&) noexcept = default;
Producer& Producer::operator=(Producer&&) noexcept = default;
Producer::~Producer() = default;
Producer::Producer(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}

std::size_t Producer::max_loan_bytes() const noexcept { return impl_ ? impl_->channel->max_loan_bytes() : 0; }

std::optional<std::span<std::byte>> Producer::try_loan(std::size_t bytes) {
  Impl& impl = use(impl_);
  std::span<std::byte> slot;
  Status s = impl.channel->try_loan(bytes, slot);
  if (s.code() == StatusCode::would_block) return std::nullopt;
  raise_unless_ok(std::move(s));
  return impl.prepared(slot);
}

std::span<std::byte> Producer::loan(std::size_t bytes) {
  if (auto slot = try_loan(bytes)) [[likely]] return *slot;
  std::span<std::byte> slot;
  raise_unless_ok(impl_->channel->loan(bytes, slot, base::Deadline::by_waiter()));
  return impl_->prepared(slot);
}

void Producer::publish() {
  Impl& impl = use(impl_);
  if (!impl.loaned) [[unlikely]] out_of_order("publish", "loan");
  impl.loaned = false;
  impl.channel->publish();
}

void Producer::write(const void* data, std::size_t bytes) {
  Impl& impl = use(impl_);
  if (impl.loaned) [[unlikely]] refuse(StatusCode::invalid_argument, "write between loan and publish: publish the loan first");
  if (data == nullptr && bytes != 0) [[unlikely]] refuse(StatusCode::invalid_argument, "write: data is null");
  raise_unless_ok(engine::write_message(*impl.channel, data, bytes));
}

void Producer::close() noexcept {
  if (!impl_) return;
  impl_->closed = true;
  impl_->channel->close();
}

Consumer::Consumer() noexcept = default;
Consumer::Consumer(Consumer&&) noexcept = default;
Consumer& Consumer::operator=(Consumer&&) noexcept = default;
Consumer::~Consumer() = default;
Consumer::Consumer(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}

std::optional<std::span<const std::byte>> Consumer::try_peek() {
  Impl& impl = use(impl_);
  std::span<const std::byte> message;
  Status s = impl.channel->try_peek(message);
  if (s.code() == StatusCode::would_block) return std::nullopt;
  raise_unless_ok(std::move(s));
  impl.peeked = true;
  return message;
}

std::span<const std::byte> Consumer::peek() {
  if (auto message = try_peek()) return *message;
  std::span<const std::byte> message;
  raise_unless_ok(impl_->channel->peek(message, base::Deadline::by_waiter()));
  impl_->peeked = true;
  return message;
}

void Consumer::release() {
  Impl& impl = use(impl_);
  if (!impl.peeked) [[unlikely]] out_of_order("release", "peek");
  impl.peeked = false;
  impl.channel->release();
}

void Consumer::read(void* data, std::size_t bytes) {
  Impl& impl = use(impl_);
  if (impl.peeked) [[unlikely]] refuse(StatusCode::invalid_argument, "read between peek and release: release the message first");
  if (data == nullptr && bytes != 0) [[unlikely]] refuse(StatusCode::invalid_argument, "read: data is null");
  raise_unless_ok(engine::read_message(*impl.channel, data, bytes));
}

void Consumer::close() noexcept {
  if (!impl_) return;
  impl_->closed = true;
  impl_->channel->close();
}

}  // namespace slipring
