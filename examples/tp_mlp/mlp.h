// A multi-layer perceptron split over the ranks of a communicator, as tensor-parallel serving does it.
//
//   block:  y = gelu(x * up^T) * down^T        up [hidden, in], down [out, hidden], x [tokens, in]
//
// Each rank holds the rows of `up` and the columns of `down` that belong to its part of the hidden units, so
// that it computes its part of gelu(x * up^T) alone and a partial sum of y; one all_reduce per block adds the
// partial sums. The parts need not be equal, and may be empty. gelu is the tanh form:
//   gelu(v) = v/2 * (1 + tanh(sqrt(2/pi) * (v + 0.044715 v^3)))
// An Mlp belongs to one thread; every rank builds it from the same files. Errors throw: NpyError for files
// that are wrong or do not fit together, slipring::Error from the communicator.
#pragma once

#include <slipring/communicator.h>

#include <string>
#include <vector>

#include "npy.h"

namespace tp_mlp {

/// Part `rank` of `size` of a range of `total`; sizes differ by at most one.
Range part_of(std::size_t total, int rank, int size);

/// What one forward pass cost, in microseconds.
struct PassTimes {
  double total_us = 0;
  std::vector<double> all_reduce_us;  ///< per block, once all ranks had arrived
  double wait_us = 0;                 ///< for the slowest rank, before the all_reduces
};

class Mlp {
 public:
  /// Reads this rank's slices of `folder`/block_00_up.npy, block_00_down.npy, block_01_up.npy, ... and rank 0
  /// reads `folder`/activations.npy for all.
  Mlp(slipring::Communicator& comm, const std::string& folder);
  ~Mlp();
  Mlp(const Mlp&) = delete;
  Mlp& operator=(const Mlp&) = delete;

  /// Runs the activations through all blocks.
  PassTimes forward();
  /// Result of the last forward, the same on every rank.
  std::span<const float> output() const { return {activations_, tokens_ * output_width_}; }

  std::size_t blocks() const noexcept { return blocks_.size(); }
  std::size_t tokens() const noexcept { return tokens_; }
  std::size_t output_width() const noexcept { return output_width_; }
  std::size_t hidden_units() const noexcept {
    return hidden_units_;
  }  ///< of the widest block, over all ranks

 private:
  struct Block {
    std::size_t in = 0, hidden = 0, out = 0;  // hidden: this rank's part
    std::vector<float> up, down;
  };
  void read_block(const NpyReader& up, const NpyReader& down);
  void run_block(const Block& block);

  slipring::Communicator& comm_;
  std::vector<Block> blocks_;
  std::size_t tokens_ = 0;
  std::size_t output_width_ = 0;
  std::size_t hidden_units_ = 0;
  std::vector<float> input_;
  std::vector<float> hidden_;
  // In the communicator's heap: the peers read partial sums where they were computed, without staging.
  float* activations_ = nullptr;
};

}  // namespace tp_mlp
