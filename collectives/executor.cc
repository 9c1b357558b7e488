// Budget per chunk: no system call, no allocation, no lock. One virtual try_peek and release, one try_loan
// and publish. Bytes moved: a send reads the user's buffer and writes the slot; a receive reads the slot and
// writes the output; a chunk that is received, reduced and passed on at once reads slot and input and writes
// the next slot, and the output only if somebody reads it there. Errors and texts are out of line.
#include "collectives/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "base/copy.h"
#include "base/status.h"
#include "collectives/plan_text.h"

namespace slipring::collectives {

bool is_only_passed_on(const std::vector<Step>& steps, std::size_t step) {
  const Step& writer = steps[step];
  if (writer.kind != StepKind::receive && writer.kind != StepKind::receive_reduce) return false;
  bool passed_on = false;
  for (std::size_t i = step + 1; i < steps.size(); ++i) {
    if (steps[i].block != writer.block) continue;
    if (steps[i].kind == StepKind::receive) return passed_on;
    const bool is_its_send = steps[i].kind == StepKind::send && steps[i].from == Side::output &&
                             steps[i].after == static_cast<std::int32_t>(step);
    if (passed_on || !is_its_send) return false;
    passed_on = true;
  }
  return false;
}

Executor::Executor(const Plan& plan, int rank, const ExecutorOptions& options)
    : operation_(plan.operation()),
      algorithm_(plan.algorithm()),
      ranks_(plan.ranks()),
      rank_(rank),
      blocks_(plan.blocks()),
      window_(options.window),
      chunk_bytes_(std::min(options.chunk_bytes, options.max_message_bytes)),
      kernel_of_(options.kernel),
      on_piece_(options.on_piece) {
  if (moves_blocks(operation_)) block_counts_.reserve(static_cast<std::size_t>(blocks_));
}

Result<std::unique_ptr<Executor>> Executor::create(const Plan& plan, int rank, ChannelProvider& channels,
                                                   const ExecutorOptions& options) {
  if (rank < 0 || rank >= plan.ranks()) {
    return base::error(StatusCode::invalid_argument, "executor: rank {} is not one of {} ranks", rank,
                       plan.ranks());
  }
  if (options.window < 1) {
    return base::error(StatusCode::invalid_argument, "executor: window {}, at least 1 is needed",
                       options.window);
  }
  std::unique_ptr<Executor> executor(new Executor(plan, rank, options));
  if (executor->chunk_bytes_ < sizeof(double)) {
    return base::error(StatusCode::invalid_argument, "executor: chunk_bytes {} hold no element of {} bytes",
                       executor->chunk_bytes_, sizeof(double));
  }
  for (int lane = 0; lane < plan.lanes(); ++lane) {
    executor->lanes_.push_back(std::make_unique<Lane>(plan.steps(rank, lane)));
    Status status = executor->connect(*executor->lanes_.back(), lane, channels);
    if (!status.is_ok()) return status;
  }
  return executor;
}

Status Executor::connect(Lane& lane, int number, ChannelProvider& channels) {
  for (std::size_t i = 0; i < lane.steps.size(); ++i) {
    const Step& step = lane.steps[i];
    transports::ChannelProducer* producer = nullptr;
    transports::ChannelConsumer* consumer = nullptr;
    if (step.kind == StepKind::send) {
      Result<transports::ChannelProducer*> got = channels.producer(step.peer, number);
      if (!got.is_ok()) return std::move(got).status();
      producer = got.value();
      if (producer->max_loan_bytes() < chunk_bytes_) {
        return base::error(
            StatusCode::invalid_argument,
            "executor: chunk_bytes {} exceed the {} bytes that the {} channel to rank {} can hold; lower "
            "the chunk size or enlarge the channels, on all ranks alike",
            chunk_bytes_, producer->max_loan_bytes(), producer->transport(), step.peer);
      }
    } else if (step.kind != StepKind::copy) {
      Result<transports::ChannelConsumer*> got = channels.consumer(step.peer, number);
      if (!got.is_ok()) return std::move(got).status();
      consumer = got.value();
    }
    lane.producers.push_back(producer);
    lane.consumers.push_back(consumer);
    lane.only_passed_on.push_back(is_only_passed_on(lane.steps, i));
  }
  return {};
}

Status Executor::check_call(const CollectiveCall& call) const {
  const std::size_t expected = moves_blocks(operation_) ? static_cast<std::size_t>(blocks_) : 0;
  if (call.blocks.size() != expected) {
    return base::error(StatusCode::invalid_argument, "{}: a table of {} blocks where {} are due", operation_name(operation_),
                       call.blocks.size(), expected);
  }
  if (expected != 0) return {};
  const std::size_t bytes = call.count * dtype_bytes(call.dtype);
  if (bytes / dtype_bytes(call.dtype) != call.count || (call.out == nullptr && bytes > 0)) {
    return base::error(StatusCode::invalid_argument, "{}: count {} of {} with output {}",
                       operation_name(operation_), call.count, dtype_name(call.dtype), call.out);
  }
  const auto in = reinterpret_cast<std::uintptr_t>(call.in);
  const auto out = reinterpret_cast<std::uintptr_t>(call.out);
  if (call.in != nullptr && in != out && in < out + bytes && out < in + bytes) {
    return base::error(StatusCode::invalid_argument, "{}: input {} and output {} of {} bytes overlap in part",
                       operation_name(operation_), call.in, call.out, bytes);
  }
  return {};
}

ChunkGrid Executor::grid_of_lane(int lane) const noexcept {
  const auto lanes = static_cast<int>(lanes_.size());
  const std::size_t chunk_elements = chunk_bytes_ / dtype_bytes(call_.dtype);
  if (!call_.blocks.empty()) return {block_counts_, lane, lanes, chunk_elements, window_};
  const Partition shares(call_.count, lanes);
  return {shares.offset(lane), shares.size(lane), blocks_, chunk_elements, window_};
}

Status Executor::start(const CollectiveCall& call) {
  if (!failure_.is_ok()) return failure_;
  if (!done()) {
    return base::error(StatusCode::invalid_argument,
                       "{} {}: started again before the operation before was done",
                       operation_name(operation_), algorithm_);
  }
  if (Status status = check_call(call); !status.is_ok()) return status;
  call_ = call;
  pieces_ = 0;
  block_counts_.clear();
  for (const BlockPlace& place : call.blocks) block_counts_.push_back(place.count);
  if (call_.in == nullptr) call_.in = call_.out;  // nothing reads it; keeps the arithmetic on it legal
  kernel_ = kernel_of_(call.dtype, call.op);
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = *lanes_[i];
    const ChunkGrid grid = grid_of_lane(static_cast<int>(i));
    lane.sender = Cursor(lane.steps, lane.own.sends, grid);
    lane.receiver = Cursor(lane.steps, lane.own.receives, grid);
    lane.finished = lane.sender.at_end() && lane.receiver.at_end();
    if (!lane.finished) ++unfinished_lanes_;
  }
  return {};
}

Executor::Piece Executor::piece(const Cursor& cursor) const noexcept {
  const int block = cursor.step().block;
  const std::size_t chunk = cursor.position().chunk;
  const std::size_t element_bytes = dtype_bytes(call_.dtype);
  const std::size_t elements = cursor.grid().chunk_size(block, chunk);
  const std::size_t offset = cursor.grid().chunk_offset(block, chunk) * element_bytes;
  const void* in = call_.in;
  void* out = call_.out;
  if (!call_.blocks.empty()) {
    in = call_.blocks[static_cast<std::size_t>(block)].in;
    out = call_.blocks[static_cast<std::size_t>(block)].out;
  }
  return {static_cast<const std::byte*>(in) + offset, static_cast<std::byte*>(out) + offset, elements, elements * element_bytes};
}

Result<std::size_t> Executor::progress() {
  if (!failure_.is_ok()) return failure_;
  std::size_t moved = 0;
  for (const std::unique_ptr<Lane>& owned : lanes_) {
    Lane& lane = *owned;
    if (lane.finished) continue;
    // Sending comes first and catches up, because only a sender that waits for the very next receive can pass
    // it on in the same pass. Both loops end after a window, so that a busy lane does not starve the others.
    int sends = 0;
    for (int receives = 0; receives < window_; ++receives) {
      Move sent = Move::moved;
      while (sends < window_ && (sent = send_next(lane)) == Move::moved) ++sends;
      const Move received = sent == Move::failed ? Move::failed : receive_next(lane);
      if (received == Move::failed) return failure_;
      if (received == Move::blocked) break;
      ++moved;
    }
    moved += static_cast<std::size_t>(sends);
    if (lane.sender.at_end() && lane.receiver.at_end()) {
      lane.finished = true;
      --unfinished_lanes_;
    }
  }
  return moved;
}

Executor::Move Executor::send_next(Lane& lane) {
  if (lane.sender.at_end()) return Move::blocked;
  const Position& at = lane.sender.position();
  const Step& step = lane.sender.step();
  if (step.after >= 0 && !lane.receiver.passed(step.after, at)) return Move::blocked;
  transports::ChannelProducer& producer = *lane.producers[static_cast<std::size_t>(at.step)];
  const Piece here = piece(lane.sender);
  std::span<std::byte> slot;
  if (Status status = producer.try_loan(here.bytes, slot); !status.is_ok()) {
    if (status.code() == StatusCode::would_block) return Move::blocked;
    return fail(std::move(status), lane, lane.sender);
  }
  base::copy_handed_over(slot.data(), step.from == Side::input ? here.in : here.out, here.bytes);
  producer.publish();
  lane.sender.advance();
  return Move::moved;
}

/// If the next thing to send is what the receiving cursor is about to write at `at`, and there is room, a
/// slot for it; else null. False after a failure.
bool Executor::loan_for_next_send(Lane& lane, const Position& at, std::size_t bytes, std::byte*& slot) {
  slot = nullptr;
  if (lane.sender.at_end()) return true;
  const Position& next = lane.sender.position();
  const Step& step = lane.sender.step();
  if (step.after != at.step || step.from != Side::output || next.window != at.window ||
      next.chunk != at.chunk) {
    return true;
  }
  std::span<std::byte> room;
  Status status = lane.producers[static_cast<std::size_t>(next.step)]->try_loan(bytes, room);
  if (status.is_ok()) {
    slot = room.data();
  } else if (status.code() != StatusCode::would_block) {
    fail(std::move(status), lane, lane.sender);
    return false;
  }
  return true;
}

Executor::Move Executor::receive_next(Lane& lane) {
  if (lane.receiver.at_end()) return Move::blocked;
  const Position at = lane.receiver.position();
  const Step& step = lane.receiver.step();
  const auto index = static_cast<std::size_t>(at.step);
  if (step.after >= 0 && !lane.sender.passed(step.after, at)) return Move::blocked;
  const Piece here = piece(lane.receiver);
  const std::byte* source = here.in;
  transports::ChannelConsumer* consumer = lane.consumers[index];
  if (consumer != nullptr) {
    std::span<const std::byte> message;
    if (Status status = consumer->try_peek(message); !status.is_ok()) {
      if (status.code() == StatusCode::would_block) return Move::blocked;
      return fail(std::move(status), lane, lane.receiver);
    }
    if (message.size() != here.bytes) [[unlikely]] {
      return fail(base::error(StatusCode::corrupt, "message of {} bytes where {} were due", message.size(),
                              here.bytes),
                  lane, lane.receiver);
    }
    source = message.data();
  }
  if (on_piece_) on_piece_(pieces_++);
  std::byte* slot = nullptr;
  if (!loan_for_next_send(lane, at, here.bytes, slot)) return Move::failed;
  const bool keep = slot == nullptr || !lane.only_passed_on[index];
  const bool computes = step.kind == StepKind::receive_reduce || (step.finish && call_.op == ReduceOp::avg);
  const auto pass_on = [&] {
    if (slot == nullptr) return;
    lane.producers[static_cast<std::size_t>(lane.sender.position().step)]->publish();
    lane.sender.advance();
  };
  if (computes) {
    reduce(step, here, source, keep ? here.out : slot, keep ? slot : nullptr);
    pass_on();
  } else {
    // Two copies rather than one kernel with two targets: the next rank can start before this one keeps its
    // own.
    if (slot != nullptr) base::copy_handed_over(slot, source, here.bytes);
    pass_on();
    if (keep && source != here.out && here.bytes != 0) std::memcpy(here.out, source, here.bytes);
  }
  if (consumer != nullptr) consumer->release();
  lane.receiver.advance();
  return Move::moved;
}

void Executor::reduce(const Step& step, const Piece& here, const void* message, void* dst, void* dst2) const {
  const int divisor = step.finish && call_.op == ReduceOp::avg ? ranks_ : 1;
  if (step.kind == StepKind::copy) {
    kernel_(dst, dst2, &message, 1, here.elements, divisor);
    return;
  }
  const void* local = step.from == Side::input ? here.in : here.out;
  const void* sources[2] = {local, message};
  if (step.received_first) std::swap(sources[0], sources[1]);
  kernel_(dst, dst2, sources, 2, here.elements, divisor);
}

[[gnu::cold]] Executor::Move Executor::fail(Status cause, const Lane& lane, const Cursor& cursor) {
  failure_ = std::move(cause).with(
      fmt::format("{} {} on rank {}: {} chunk {}", operation_name(operation_), algorithm_, rank_,
                  describe_step(lane.steps, cursor.position().step), cursor.position().chunk));
  return Move::failed;
}

std::string Executor::describe_wait() const {
  std::string text;
  const auto add = [&](std::size_t lane, std::string_view what, const Cursor& cursor) {
    if (cursor.at_end()) return;
    text += fmt::format("{}lane {}: {} {} chunk {}", text.empty() ? "" : "; ", lane, what,
                        describe_step(lanes_[lane]->steps, cursor.position().step), cursor.position().chunk);
  };
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const Lane& lane = *lanes_[i];
    const Cursor& sender = lane.sender;
    add(i, "no message or hold for", lane.receiver);
    // A send that waits for a receive is no news: the receive is named already.
    if (!sender.at_end() &&
        (sender.step().after < 0 || lane.receiver.passed(sender.step().after, sender.position()))) {
      add(i, "no room for", sender);
    }
  }
  return text;
}

std::vector<int> Executor::awaited_peers() const {
  std::vector<int> peers;
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    const Cursor& sender = lane->sender;
    const Cursor& receiver = lane->receiver;
    if (!receiver.at_end() && receiver.step().peer >= 0) peers.push_back(receiver.step().peer);
    if (!sender.at_end() &&
        (sender.step().after < 0 || receiver.passed(sender.step().after, sender.position()))) {
      peers.push_back(sender.step().peer);
    }
  }
  return peers;
}

}  // namespace slipring::collectives
