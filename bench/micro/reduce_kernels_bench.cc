// Throughput of one reduction pass by type, operator, number of sources and size, on one core with buffers of
// its own. GB/s counts what is read and stored: (n + 1) times the bytes of one source.
#include <benchmark/benchmark.h>

#include <cstring>
#include <string>
#include <vector>

#include "collectives/reduce_kernels.h"

namespace slipring::collectives {
namespace {

struct Case {
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  int n = 2;
  std::size_t offset = 0;  // bytes that dst and sources start past a line
  bool dst2 = false;
  int divisor = 1;
};

void reduce_pass(benchmark::State& state, const Case& c) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  // One page and a line between buffers, so that they do not fall into the same cache sets.
  const std::size_t stride = (bytes + 4095) / 4096 * 4096 + 4096 + 64;
  std::vector<std::byte> memory(static_cast<std::size_t>(c.n + 2) * stride + 4096);
  std::memset(memory.data(), 0, memory.size());
  std::byte* base =
      memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64 + c.offset;
  std::vector<const void*> sources;
  for (int k = 0; k < c.n; ++k) sources.push_back(base + static_cast<std::size_t>(k) * stride);
  std::byte* dst = base + static_cast<std::size_t>(c.n) * stride;
  std::byte* dst2 = c.dst2 ? dst + stride : nullptr;
  const ReduceFn kernel = reduce_kernel(c.dtype, c.op);
  const std::size_t count = bytes / dtype_bytes(c.dtype);
  for (auto _ : state) {
    kernel(dst, dst2, sources.data(), c.n, count, c.divisor);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(bytes) *
                          (c.n + (c.dst2 ? 2 : 1)));
}

void add(const std::string& variant, const Case& c, const std::vector<std::int64_t>& sizes) {
  const std::string name = std::string(dtype_name(c.dtype)) + "/" + std::string(reduce_op_name(c.op)) + "/n" +
                           std::to_string(c.n) + variant;
  auto* registered =
      benchmark::RegisterBenchmark(name.c_str(), [c](benchmark::State& state) { reduce_pass(state, c); });
  for (const std::int64_t bytes : sizes) registered->Arg(bytes);
}

void add_all() {
  const std::vector<std::int64_t> tiny = {4, 8, 12, 32, 60, 64};
  const std::vector<std::int64_t> by_level = {256, 1 << 10, 4 << 10, 16 << 10, 128 << 10, 1 << 20, 16 << 20};
  const std::vector<std::int64_t> cached = {16 << 10, 128 << 10};
  add("", {}, tiny);
  add("", {}, by_level);
  for (const int n : {3, 4, 8}) add("", {.n = n}, {16, 4 << 10, 16 << 10, 128 << 10, 1 << 20});
  for (const std::size_t offset : {4, 16, 32}) {
    add("/offset" + std::to_string(offset), {.offset = offset},
        {256, 512, 1 << 10, 2 << 10, 4 << 10, 128 << 10});
  }
  add("/dst2", {.dst2 = true}, {4, 16 << 10, 128 << 10});
  // Beside f32 of the same bytes: what rounding to 16 bits costs.
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const int n : {2, 4, 8})
      add("", {.dtype = dtype, .n = n}, {16, 1 << 10, 4 << 10, 16 << 10, 128 << 10, 1 << 20});
    add("/dst2", {.dtype = dtype, .dst2 = true}, cached);
  }
  for (int t = 0; t < kDTypeCount; ++t) {
    const auto dtype = static_cast<DType>(t);
    if (!is_reducible(dtype)) continue;
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg}) {
      if (op == ReduceOp::sum && (dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16))
        continue;
      add("", {.dtype = dtype, .op = op, .divisor = 3}, cached);
    }
  }
}

}  // namespace
}  // namespace slipring::collectives

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::AddCustomContext("reduce_kernel_target", slipring::collectives::reduce_kernel_target());
  slipring::collectives::add_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
