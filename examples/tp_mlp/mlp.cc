#include "mlp.h"

#include <cblas.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstdio>
#include <filesystem>

namespace tp_mlp {
namespace {

std::string block_path(const std::string& folder, std::size_t block, const char* layer) {
  char name[64];
  std::snprintf(name, sizeof name, "block_%02zu_%s.npy", block, layer);
  return (std::filesystem::path(folder) / name).string();
}

/// out[rows, columns] = a[rows, depth] * b[columns, depth]^T
void multiply_transposed(const float* a, const float* b, float* out, std::size_t rows, std::size_t columns,
                         std::size_t depth) {
  if (depth == 0) {
    std::fill_n(out, rows * columns, 0.0F);
    return;
  }
  if (rows == 0 || columns == 0) return;
  const auto m = static_cast<int>(rows), n = static_cast<int>(columns), k = static_cast<int>(depth);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1.0F, a, k, b, k, 0.0F, out, n);
}

void gelu(std::span<float> values) {
  constexpr float kSqrt2OverPi = 0.7978845608F;
  for (float& v : values) v = 0.5F * v * (1.0F + std::tanh(kSqrt2OverPi * (v + 0.044715F * v * v * v)));
}

double us_between(std::chrono::steady_clock::time_point a, std::chrono::steady_clock::time_point b) {
  return std::chrono::duration<double, std::micro>(b - a).count();
}

}  // namespace

Range part_of(std::size_t total, int rank, int size) {
  const auto r = static_cast<std::size_t>(rank), n = static_cast<std::size_t>(size);
  const std::size_t each = total / n, left = total % n;
  const std::size_t begin = r * each + std::min(r, left);
  return {begin, begin + each + (r < left ? 1 : 0)};
}

Mlp::Mlp(slipring::Communicator& comm, const std::string& folder) : comm_(comm) {
  openblas_set_num_threads(1);  // the ranks are the parallelism

  const NpyReader activations((std::filesystem::path(folder) / "activations.npy").string());
  tokens_ = activations.rows();
  std::size_t width = activations.columns(), widest = width, most_hidden = 0;
  for (std::size_t i = 0; std::filesystem::exists(block_path(folder, i, "up")); ++i) {
    const NpyReader up(block_path(folder, i, "up"));
    const NpyReader down(block_path(folder, i, "down"));
    if (up.columns() != width) {
      throw NpyError(up.path() + ": takes " + std::to_string(up.columns()) + " inputs, but its input has " +
                     std::to_string(width));
    }
    if (down.columns() != up.rows()) {
      throw NpyError(down.path() + ": takes " + std::to_string(down.columns()) + " inputs, but " + up.path() +
                     " has " + std::to_string(up.rows()) + " outputs");
    }
    read_block(up, down);
    width = down.rows();
    widest = std::max(widest, width);
    most_hidden = std::max(most_hidden, blocks_.back().hidden);
    hidden_units_ = std::max(hidden_units_, up.rows());
  }
  if (blocks_.empty()) throw NpyError(block_path(folder, 0, "up") + ": there is no such file");
  if (std::max({tokens_, widest, hidden_units_}) > INT_MAX)
    throw NpyError(folder + ": a dimension is above 2^31");
  output_width_ = width;

  input_.resize(tokens_ * activations.columns());
  if (comm.rank() == 0) activations.read({0, tokens_}, {0, activations.columns()}, input_);
  comm.broadcast(input_.data(), input_.size(), slipring::DType::f32, 0);
  hidden_.resize(tokens_ * most_hidden);
  activations_ =
      static_cast<float*>(comm.heap_allocate(std::max<std::size_t>(1, tokens_ * widest) * sizeof(float)));
}

Mlp::~Mlp() {
  comm_.heap_free(activations_);
}

void Mlp::read_block(const NpyReader& up, const NpyReader& down) {
  const Range mine = part_of(up.rows(), comm_.rank(), comm_.size());
  Block block{up.columns(), mine.size(), down.rows(), {}, {}};
  block.up.resize(block.hidden * block.in);
  block.down.resize(block.out * block.hidden);
  up.read(mine, {0, block.in}, block.up);
  down.read({0, block.out}, mine, block.down);
  blocks_.push_back(std::move(block));
}

void Mlp::run_block(const Block& block) {
  multiply_transposed(activations_, block.up.data(), hidden_.data(), tokens_, block.hidden, block.in);
  gelu({hidden_.data(), tokens_ * block.hidden});
  multiply_transposed(hidden_.data(), block.down.data(), activations_, tokens_, block.out, block.hidden);
}

PassTimes Mlp::forward() {
  using Clock = std::chrono::steady_clock;
  PassTimes times;
  const auto start = Clock::now();
  std::copy(input_.begin(), input_.end(), activations_);
  for (const Block& block : blocks_) {
    run_block(block);
    const auto computed = Clock::now();
    comm_.barrier();  // only so that waiting for a slower rank is not counted as transfer
    const auto arrived = Clock::now();
    comm_.all_reduce(std::span(activations_, tokens_ * block.out), slipring::ReduceOp::sum);
    const auto reduced = Clock::now();
    times.wait_us += us_between(computed, arrived);
    times.all_reduce_us.push_back(us_between(arrived, reduced));
  }
  times.total_us = us_between(start, Clock::now());
  return times;
}

}  // namespace tp_mlp
