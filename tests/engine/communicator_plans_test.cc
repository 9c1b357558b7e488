// Operations that configuration or a tuning file sends through plans: the same results as directly, and the ranks agree.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <numeric>

#include "slipring/communicator.h"

namespace slipring::tests {
namespace {

using Config = std::map<std::string, std::string>;

// Every operation at several counts and roots; all results of a rank one after the other.
std::vector<std::int32_t> results(Communicator& comm) {
  const auto n = static_cast<std::size_t>(comm.size());
  std::vector<std::int32_t> all;
  for (const std::size_t count : {0u, 1u, 3u, 17u, 257u, 5003u}) {
    std::vector<std::int32_t> in(n * count), out(n * count), place(n * count);
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::int32_t>(i * 31 + 7u * static_cast<unsigned>(comm.rank())) % 1009;
    const auto keep = [&](const std::vector<std::int32_t>& from, std::size_t elements) {
      all.insert(all.end(), from.begin(), from.begin() + static_cast<std::ptrdiff_t>(elements));
      out.assign(n * count, -1);
      place = in;
    };
    keep(out, 0);
    const std::size_t me = static_cast<std::size_t>(comm.rank()) * count;
    std::vector<std::size_t> counts(n);
    for (std::size_t r = 0; r < n; ++r) counts[r] = count * r / n;
    comm.all_reduce(in.data(), out.data(), count, DType::i32, ReduceOp::sum), keep(out, count);
    comm.all_reduce(place.data(), place.data(), count, DType::i32, ReduceOp::avg), keep(place, count);
    comm.all_gather(in.data(), out.data(), count, DType::i32), keep(out, n * count);
    comm.all_gather(place.data() + me, place.data(), count, DType::i32), keep(place, n * count);
    comm.all_gatherv(in.data(), out.data(), counts, DType::i32), keep(out, std::accumulate(counts.begin(), counts.end(), std::size_t{0}));
    comm.reduce_scatter(in.data(), out.data(), count, DType::i32, ReduceOp::max), keep(out, count);
    comm.reduce_scatter(place.data(), place.data() + me, count, DType::i32, ReduceOp::avg);
    all.insert(all.end(), place.begin() + static_cast<std::ptrdiff_t>(me), place.begin() + static_cast<std::ptrdiff_t>(me + count));
    place = in;
    comm.reduce_scatterv(in.data(), out.data(), counts, DType::i32, ReduceOp::sum), keep(out, counts[static_cast<std::size_t>(comm.rank())]);
    comm.all_to_all(in.data(), out.data(), count, DType::i32), keep(out, n * count);
    comm.all_to_all(place.data(), place.data(), count, DType::i32), keep(place, n * count);
    const std::size_t shape[2] = {3, n};
    if (count == 257) comm.reduce_scatter(in.data(), out.data(), shape, 1, DType::i32, ReduceOp::sum), keep(out, 3);  // not packed
    for (int root = 0; root < comm.size(); ++root) {
      const bool is_root = comm.rank() == root;
      comm.reduce(in.data(), is_root ? out.data() : nullptr, count, DType::i32, ReduceOp::avg, root), keep(out, is_root ? count : 0);
      comm.gather(in.data(), is_root ? out.data() : nullptr, count, DType::i32, root), keep(out, is_root ? n * count : 0);
      comm.scatter(is_root ? in.data() : nullptr, out.data(), count, DType::i32, root), keep(out, count);
      comm.broadcast(place.data(), count, DType::i32, root), keep(place, count);
    }
  }
  return all;
}

std::vector<std::vector<std::int32_t>> run(int size, const Config& config) {
  std::vector<std::vector<std::int32_t>> all(static_cast<std::size_t>(size));
  run_threads(size, [&](Communicator& comm) { all[static_cast<std::size_t>(comm.rank())] = results(comm); }, {.config = config});
  return all;
}

class Plans : public ::testing::TestWithParam<Config> {};
INSTANTIATE_TEST_SUITE_P(Algorithms, Plans,
                         ::testing::Values(Config{{"all_reduce.algorithm", "halving_doubling"}, {"reduce.algorithm", "tree"},
                                                  {"broadcast.algorithm", "tree"}, {"all_gather.algorithm", "bruck"},
                                                  {"reduce_scatter.algorithm", "pairwise"}, {"gather.algorithm", "tree"},
                                                  {"scatter.algorithm", "tree"}, {"all_to_all.algorithm", "bruck"}},
                                           Config{{"all_reduce.algorithm", "ring"}, {"reduce.algorithm", "ring"},
                                                  {"broadcast.algorithm", "ring"}, {"all_gather.algorithm", "ring"},
                                                  {"reduce_scatter.algorithm", "ring"}, {"gather.algorithm", "linear"},
                                                  {"scatter.algorithm", "linear"}, {"all_to_all.algorithm", "pairwise"},
                                                  {"plan.chunk_bytes", "128"}, {"channel.bytes", "4096"}}));

TEST_P(Plans, give_what_the_direct_paths_give) {
  for (const int size : {1, 2, 3, 4, 5, 8}) EXPECT_EQ(run(size, GetParam()), run(size, {})) << size << " ranks";
}

TEST_P(Plans, run_below_levels_too) {
  Config config = GetParam();
  config.erase("all_reduce.algorithm");
  config["topology.domains"] = "2";
  for (const int size : {4, 5}) EXPECT_EQ(run(size, config), run(size, {})) << size << " ranks";
}

TEST(TuningFile, is_followed_explained_and_must_be_the_same_on_all_ranks) {
  const std::string path = ::testing::TempDir() + "slipring-tuning-test.toml";
  std::ofstream(path) << "[[rule]]\noperation = \"all_gather\"\nbytes = [100, 1000]\nalgorithm = \"bruck\"\n";
  std::atomic<int> wrong{0};
  run_threads(3, [&](Communicator& comm) {
    wrong += comm.explain("all_gather", 99).algorithm != "direct" || comm.explain("all_gather", 100).algorithm != "bruck";
    wrong += comm.explain("all_gather", 100).reason != "line 1 of the tuning file " + path + " asks for bruck";
    std::int64_t mine = comm.rank(), all[30] = {};
    comm.all_gather(&mine, all, 1, DType::i64);
    std::vector<std::int64_t> wide(10, comm.rank());
    comm.all_gather(wide.data(), all, 10, DType::i64);
    for (int i = 0; i < 30; ++i) wrong += all[i] != i / 10;
  }, {.config = {{"tuning.file", path}}});
  EXPECT_EQ(wrong, 0);
  std::ofstream(path) << "[[rule]]\noperation = \"all_gather\"\nalgorithm = \"none\"\n";
  try {
    run_threads(2, [](Communicator&) {}, {.config = {{"tuning.file", path}}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("line 1: all_gather has no algorithm \"none\"; it has direct, ring, bruck"), std::string::npos) << e.what();
  }
  std::remove(path.c_str());
}

}  // namespace
}  // namespace slipring::tests
