// The one place that says how a list of steps is cut into chunks and in which order they are visited.
//
// Partition divides elements into parts, ChunkGrid divides a lane into blocks and chunks, Cursor visits the
// chunks of some steps. Executor, checker and cost model all walk with these, so that what was proven is what
// runs. Both ends of a channel derive the same order from the same sizes, and messages carry no header.
// Plain values without failure; a Cursor is used by one thread.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/plan.h"

namespace slipring::collectives {

/// `elements` in `parts` contiguous parts; the first elements % parts of them have one more.
class Partition {
 public:
  Partition() = default;
  Partition(std::size_t elements, int parts) noexcept
      : base_(elements / static_cast<std::size_t>(parts)),
        longer_(elements % static_cast<std::size_t>(parts)) {}

  std::size_t offset(int part) const noexcept {
    const auto p = static_cast<std::size_t>(part);
    return p * base_ + std::min(p, longer_);
  }
  std::size_t size(int part) const noexcept {
    return base_ + (static_cast<std::size_t>(part) < longer_ ? 1 : 0);
  }
  std::size_t largest() const noexcept { return base_ + (longer_ > 0 ? 1 : 0); }
  bool is_longer(int part) const noexcept { return static_cast<std::size_t>(part) < longer_; }

 private:
  std::size_t base_ = 0;
  std::size_t longer_ = 0;
};

/// The blocks and chunks of one lane.
class ChunkGrid {
 public:
  ChunkGrid() = default;
  /// `offset` is the lane's first element in the user's buffer; chunk_elements and window are at least 1.
  ChunkGrid(std::size_t offset, std::size_t elements, int blocks, std::size_t chunk_elements,
            int window) noexcept
      : blocks_(elements, blocks),
        offset_(offset),
        chunk_elements_(chunk_elements),
        chunks_long_(divide_up(blocks_.largest(), chunk_elements)),
        chunks_short_(divide_up(blocks_.size(blocks - 1), chunk_elements)),
        window_(static_cast<std::size_t>(window)),
        windows_(divide_up(chunks_long_, window_)) {}

  /// A lane's share of blocks of any sizes, which must stay valid; offsets count from the start of each block.
  ChunkGrid(std::span<const std::size_t> block_elements, int lane, int lanes, std::size_t chunk_elements, int window) noexcept
      : table_(block_elements), lane_(lane), lanes_(lanes), chunk_elements_(chunk_elements), window_(static_cast<std::size_t>(window)) {
    std::size_t most = 0;
    for (std::size_t b = 0; b < table_.size(); ++b) most = std::max(most, chunks(static_cast<int>(b)));
    windows_ = divide_up(most, window_);
  }

  std::size_t chunks(int block) const noexcept {
    if (!table_.empty()) return divide_up(share(block).size(lane_), chunk_elements_);
    return blocks_.is_longer(block) ? chunks_long_ : chunks_short_;
  }
  std::size_t windows() const noexcept { return windows_; }
  std::size_t window() const noexcept { return window_; }  ///< chunks per window

  /// First element of a chunk, in the user's buffer or, over a table, in the block.
  std::size_t chunk_offset(int block, std::size_t chunk) const noexcept {
    if (!table_.empty()) return share(block).offset(lane_) + chunk * chunk_elements_;
    return offset_ + blocks_.offset(block) + chunk * chunk_elements_;
  }
  std::size_t chunk_size(int block, std::size_t chunk) const noexcept {
    if (!table_.empty()) return std::min(chunk_elements_, share(block).size(lane_) - chunk * chunk_elements_);
    return std::min(chunk_elements_, blocks_.size(block) - chunk * chunk_elements_);
  }

 private:
  static std::size_t divide_up(std::size_t a, std::size_t b) noexcept { return a / b + (a % b != 0 ? 1 : 0); }

  Partition share(int block) const noexcept { return {table_[static_cast<std::size_t>(block)], lanes_}; }

  Partition blocks_;
  std::span<const std::size_t> table_;  // empty: blocks_ are equal parts of a vector
  int lane_ = 0, lanes_ = 1;
  std::size_t offset_ = 0;
  std::size_t chunk_elements_ = 1;
  std::size_t chunks_long_ = 0;
  std::size_t chunks_short_ = 0;
  std::size_t window_ = 1;
  std::size_t windows_ = 0;
};

/// A chunk of a step, ordered as cursors visit them.
struct Position {
  std::size_t window = 0;
  std::int32_t step = 0;  ///< index in the whole list of steps
  std::size_t chunk = 0;  ///< within the step's block

  auto operator<=>(const Position&) const = default;
};

/// Visits, for each window, for each of `own` (indices into `steps`, ascending), each chunk of the window.
/// Everything before position() is complete, everything from it on is not: one comparison answers whether a
/// chunk is done, and no state is kept per chunk.
class Cursor {
 public:
  Cursor() = default;
  /// The spans must stay valid; the grid is copied.
  Cursor(std::span<const Step> steps, std::span<const std::int32_t> own, const ChunkGrid& grid) noexcept
      : steps_(steps), own_(own), grid_(grid) {
    if (own_.empty()) {
      at_.window = grid_.windows();
    } else if (!at_end()) {
      at_.step = own_[0];
      settle();
    }
  }

  bool at_end() const noexcept { return at_.window >= grid_.windows(); }
  const Position& position() const noexcept { return at_; }
  const Step& step() const noexcept { return steps_[static_cast<std::size_t>(at_.step)]; }
  const ChunkGrid& grid() const noexcept { return grid_; }

  /// Whether this cursor has completed the chunk of `step` that `at` names in another step.
  bool passed(std::int32_t step, const Position& at) const noexcept {
    return at_ > Position{at.window, step, at.chunk};
  }

  void advance() noexcept {
    ++at_.chunk;
    settle();
  }

 private:
  /// Moves on to the next chunk that exists, from at_ inclusive.
  void settle() noexcept {
    for (;;) {
      const std::size_t end = std::min((at_.window + 1) * grid_.window(), grid_.chunks(step().block));
      if (at_.chunk < end) return;
      if (++next_ == own_.size()) {
        next_ = 0;
        if (++at_.window == grid_.windows()) {
          at_.step = 0;
          at_.chunk = 0;
          return;
        }
      }
      at_.step = own_[next_];
      at_.chunk = at_.window * grid_.window();
    }
  }

  std::span<const Step> steps_;
  std::span<const std::int32_t> own_;
  ChunkGrid grid_;
  Position at_;
  std::size_t next_ = 0;
};

/// The steps of a list that its two cursors visit.
struct CursorSteps {
  explicit CursorSteps(std::span<const Step> steps) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      (steps[i].kind == StepKind::send ? sends : receives).push_back(static_cast<std::int32_t>(i));
    }
  }
  std::vector<std::int32_t> sends;
  std::vector<std::int32_t> receives;  ///< receive, receive_reduce and copy
};

}  // namespace slipring::collectives
