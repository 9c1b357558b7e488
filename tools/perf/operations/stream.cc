#include <algorithm>
#include <cstring>

#include "slipring/channel.h"
#include "tools/perf/buffer.h"
#include "tools/perf/operations/operations.h"
#include "tools/perf/options.h"
#include "tools/perf/pattern.h"
#include "tools/perf/words.h"

namespace slipring::tools::perf {
namespace {

/// Longest piece in which a message travels: long enough that the hand-over costs nothing, short enough that
/// the consumer reads a piece while it is still in cache.
constexpr std::size_t kPieceBytes = std::size_t{64} << 10;

/// Rank 0 sends messages to rank 1 through a channel; other ranks stand by. The default form copies from a
/// user buffer into the slots and from the slots into a user buffer, as a message-passing interface does. The
/// in-place form has no user buffers: rank 0 stores its words into the slot, rank 1 sums them there.
class Stream final : public Operation {
 public:
  Stream(Communicator& comm, const Options& options)
      : comm_(comm),
        dtype_(options.dtype),
        in_place_(options.in_place),
        rank_(comm.rank()),
        buffer_(comm, in_place_ || rank_ > 1 ? 0 : options.max_bytes, options.heap) {
    if (rank_ == 0) producer_ = comm.open_producer(1);
    if (rank_ == 1) consumer_ = comm.open_consumer(0);
    piece_bytes_ = rank_ == 0 ? std::min(kPieceBytes, producer_.max_loan_bytes() / kAlign * kAlign) : 0;
  }

  void set_up(std::size_t count, Data data) override {
    count_ = count;
    data_ = data;
    wrong_ = 0;
    pattern_ = Pattern(dtype_, ReduceOp::sum, comm_.size(), ++seed_);
    if (in_place_) return;
    if (rank_ == 0) pattern_.fill(buffer_.data(), count, 0);
    if (rank_ == 1) fill_garbage(buffer_.data(), bytes());
  }

  void run(std::int64_t times) override {
    if (rank_ == 0) {
      for (std::int64_t i = 0; i < times; ++i) produce();
    } else if (rank_ == 1) {
      for (std::int64_t i = 0; i < times; ++i) consume();
    }
  }

  std::uint64_t wrong() const override {
    if (rank_ != 1) return 0;
    return in_place_ ? wrong_ : pattern_.wrong_data(buffer_.data(), count_, 0);
  }
  std::size_t buffer_bytes() const override { return buffer_.bytes(); }

 private:
  static constexpr std::size_t kAlign = 64;
  static constexpr Word kStored = 3;

  std::size_t bytes() const { return count_ * dtype_bytes(dtype_); }

  void produce() {
    std::size_t sent = 0;
    do {  // also an empty message is a message
      const std::span<std::byte> slot = producer_.loan(std::min(piece_bytes_, bytes() - sent));
      store(slot, sent);
      producer_.publish();
      sent += slot.size();
    } while (sent < bytes());
  }

  void store(std::span<std::byte> slot, std::size_t at) {
    if (!in_place_) {
      std::memcpy(slot.data(), buffer_.data() + at, slot.size());
    } else if (data_ == Data::timed) {
      fill_words(slot, kStored);
    } else {
      pattern_.fill(slot.data(), slot.size() / dtype_bytes(dtype_), 0, at / dtype_bytes(dtype_));
    }
  }

  void consume() {
    std::size_t received = 0;
    Word sum = 0;
    do {
      const std::span<const std::byte> piece = consumer_.peek();
      if (piece.size() > bytes() - received) throw Error(Status(StatusCode::corrupt, "a piece is too long"));
      if (!in_place_) {
        std::memcpy(buffer_.data() + received, piece.data(), piece.size());
      } else if (data_ == Data::timed) {
        sum += sum_words(piece);
      } else {
        const std::size_t width = dtype_bytes(dtype_);
        wrong_ += pattern_.wrong_data(piece.data(), piece.size() / width, 0, received / width);
      }
      received += piece.size();
      consumer_.release();
    } while (received < bytes());
    if (in_place_ && data_ == Data::timed)
      wrong_ += sum != static_cast<Word>(bytes() / sizeof(Word)) * kStored;
  }

  Communicator& comm_;
  DType dtype_;
  bool in_place_;
  int rank_;
  Buffer buffer_;
  Producer producer_;
  Consumer consumer_;
  std::size_t piece_bytes_ = 0;
  std::size_t count_ = 0;
  Data data_ = Data::checked;
  std::uint64_t wrong_ = 0;
  std::uint64_t seed_ = 0;
  Pattern pattern_{dtype_, ReduceOp::sum, comm_.size(), seed_};
};

}  // namespace

const OperationInfo kStream{
    .name = "stream",
    .meaning = "messages from rank 0 to rank 1 through one channel",
    .is_collective = false,
    .has_in_place_form = true,
    .min_ranks = 2,
    .make = [](Communicator& comm, const Options& options) -> std::unique_ptr<Operation> {
      return std::make_unique<Stream>(comm, options);
    },
};

}  // namespace slipring::tools::perf
