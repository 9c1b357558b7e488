// Data path of copied messages. Budget: one copy in and one out per byte, in pieces that stay in the caches; no
// system call, lock, allocation or clock read unless a side has to wait.
#include "engine/message.h"

#include <algorithm>
#include <cstring>

#include "base/copy.h"
#include "base/status.h"

namespace slipring::engine {
namespace {

using transports::ChannelConsumer;
using transports::ChannelProducer;

// The size, then the data: beside it in one cache line if both fit, else from the next line on.
constexpr std::size_t kSizeBytes = sizeof(std::uint64_t);
constexpr std::size_t kShortBytes = 40;
constexpr std::size_t kDataOffset = 64;
// Small enough that both sides work at the same time and a piece is still in the cache when it is read.
constexpr std::size_t kPieceBytes = 64 * 1024;

std::size_t piece_bytes(std::size_t max_loan_bytes) noexcept { return std::min(kPieceBytes, max_loan_bytes - kDataOffset); }

Status loan(ChannelProducer& channel, std::size_t bytes, std::span<std::byte>& slot) {
  return channel.loan(bytes, slot, base::Deadline::by_waiter());
}

Status peek(ChannelConsumer& channel, std::span<const std::byte>& message) {
  return channel.peek(message, base::Deadline::by_waiter());
}

[[gnu::cold]] Status wrong_size(const ChannelConsumer& channel, std::uint64_t sent, std::size_t expected) {
  return base::error(StatusCode::mismatch, "rank {} sent a message of {} bytes, but {} bytes were to be received; both sides "
                     "must name the same size", channel.peer(), sent, expected);
}

}  // namespace

std::size_t first_piece_bytes(const ChannelProducer& channel, std::size_t bytes) noexcept {
  return bytes <= kShortBytes ? kSizeBytes + bytes : kDataOffset + std::min(piece_bytes(channel.max_loan_bytes()), bytes);
}

Status write_message(ChannelProducer& channel, const void* data, std::size_t bytes) {
  std::span<std::byte> slot;
  const std::uint64_t size = bytes;
  if (bytes <= kShortBytes) {
    if (Status s = loan(channel, kSizeBytes + bytes, slot); !s) return s;
    std::memcpy(slot.data(), &size, kSizeBytes);
    if (bytes != 0) std::memcpy(slot.data() + kSizeBytes, data, bytes);
    channel.publish();
    return {};
  }
  const std::size_t piece = piece_bytes(channel.max_loan_bytes());
  const auto* from = static_cast<const std::byte*>(data);
  std::size_t offset = kDataOffset;
  for (std::size_t done = 0; done < bytes; done += piece, offset = 0) {
    const std::size_t now = std::min(piece, bytes - done);
    if (Status s = loan(channel, offset + now, slot); !s) return s;
    if (offset != 0) std::memcpy(slot.data(), &size, kSizeBytes);
    base::copy_handed_over(slot.data() + offset, from + done, now);
    channel.publish();
  }
  return {};
}

Status read_message(ChannelConsumer& channel, void* data, std::size_t bytes) {
  std::span<const std::byte> message;
  if (Status s = peek(channel, message); !s) return s;
  std::uint64_t size = 0;
  if (message.size() < kSizeBytes) [[unlikely]] return wrong_size(channel, message.size(), bytes);
  std::memcpy(&size, message.data(), kSizeBytes);
  if (size != bytes) [[unlikely]] return wrong_size(channel, size, bytes);
  if (bytes <= kShortBytes) {
    if (message.size() != kSizeBytes + bytes) [[unlikely]] return wrong_size(channel, message.size(), bytes);
    if (bytes != 0) std::memcpy(data, message.data() + kSizeBytes, bytes);
    channel.release();
    return {};
  }
  auto* to = static_cast<std::byte*>(data);
  std::size_t offset = kDataOffset;
  for (std::size_t done = 0; done < bytes; offset = 0) {
    if (done != 0)
      if (Status s = peek(channel, message); !s) return s;
    if (message.size() <= offset || message.size() - offset > bytes - done) [[unlikely]]
      return wrong_size(channel, done + message.size(), bytes);
    std::memcpy(to + done, message.data() + offset, message.size() - offset);
    done += message.size() - offset;
    channel.release();
  }
  return {};
}

}  // namespace slipring::engine
