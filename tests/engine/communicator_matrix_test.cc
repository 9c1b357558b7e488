// Every operation x type x operator x group size x count, in and out of place, aligned and not, on every path, with
// ranks as threads: exact results, bit-identical on all ranks, nothing written outside. Buffers of the paths are
// configured small, so that small counts cross every internal boundary.
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <string>

#include "reduction_reference.h"
#include "slipring/communicator.h"

namespace slipring::tests {
namespace {

JobOptions small_buffers(const std::string& algorithm, const std::string& start = "0") {
  return {.config = {{"all_reduce.algorithm", algorithm}, {"direct.one_shot_max_bytes", "2048"}, {"direct.chunk_bytes", "4096"},
                     {"plan.chunk_bytes", "512"}, {"channel.bytes", "8192"}, {"channel.slots", "4"}, {"heap.max_bytes", "4194304"},
                     {"op.timeout_ms", "60000"}, {"test.counter_start", start}}};
}

// Sanitizers look for races and bad accesses, which need each boundary once, not each count; they are ten times slower.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

std::vector<std::size_t> counts() {
  if (kSanitized) return {0, 1, 3, 17, 257, 513, 1025, 3073};
  std::vector<std::size_t> c;
  for (std::size_t i = 0; i <= 20; ++i) c.push_back(i);
  for (std::size_t edge : {31u, 64u, 128u, 255u, 257u, 512u, 1024u, 2048u, 3072u, 10007u})
    for (std::size_t i : {edge - 1, edge, edge + 1}) c.push_back(i);
  return c;
}

// Returns how many checks failed; gtest assertions are for the main thread only.
template <class T>
int check_all_reduce(Communicator& comm, std::size_t count, ReduceOp op, bool in_place, std::size_t shift) {
  ShiftedBuffer<T> in(count, shift), out(count, shift + 1);
  for (std::size_t i = 0; i < count; ++i) in.data()[i] = input_value<T>(comm.rank(), i);
  T* result = in_place ? in.data() : out.data();
  comm.all_reduce(in.data(), result, count, dtype_of<T>::value, op);
  int wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    wrong += result[i] != expected_value<T>(comm.size(), i, op);
    wrong += !in_place && in.data()[i] != input_value<T>(comm.rank(), i);
  }
  return wrong + !in.guards_intact() + !out.guards_intact();
}

// Types beyond the first take every third count, another third for the next type.
template <class T>
void all_counts(Communicator& comm, std::atomic<int>& wrong, std::size_t every = 1, std::size_t first = 0) {
  const std::vector<std::size_t> all = counts();
  for (std::size_t i = first; i < all.size(); i += every)
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg})
      wrong += check_all_reduce<T>(comm, all[i], op, all[i] % 2 == 0, all[i] % 3);
}

std::vector<int> group_sizes() {
  if (kSanitized) return {1, 2, 3, 5, 8};
  std::vector<int> sizes(16);
  std::iota(sizes.begin(), sizes.end(), 1);
  return sizes;
}

class AllReduceMatrix : public testing::TestWithParam<std::tuple<int, std::string>> {};

TEST_P(AllReduceMatrix, is_exact_for_every_type_operator_and_count) {
  const auto& [ranks, algorithm] = GetParam();
  std::atomic<int> wrong{0};
  run_threads(ranks, [&](Communicator& comm) {
    all_counts<float>(comm, wrong);
    all_counts<double>(comm, wrong);
    all_counts<std::int32_t>(comm, wrong);
    all_counts<std::int64_t>(comm, wrong);
    all_counts<std::int8_t>(comm, wrong, 3, 0);
    all_counts<std::uint8_t>(comm, wrong, 3, 1);
    all_counts<std::uint32_t>(comm, wrong, 3, 2);
    all_counts<std::uint64_t>(comm, wrong, 3, 0);
    all_counts<float16>(comm, wrong, 3, 1);
    all_counts<bfloat16>(comm, wrong, 3, 2);
  }, small_buffers(algorithm));
  EXPECT_EQ(wrong, 0);
}

std::string name_of(const testing::TestParamInfo<std::tuple<int, std::string>>& info) {
  return std::get<1>(info.param) + "_" + std::to_string(std::get<0>(info.param));
}

INSTANTIATE_TEST_SUITE_P(groups, AllReduceMatrix,
                         testing::Combine(testing::ValuesIn(group_sizes()), testing::Values("auto", "two_phase", "ring")), name_of);
INSTANTIATE_TEST_SUITE_P(further_algorithms, AllReduceMatrix,
                         testing::Combine(testing::Values(2, 3, 4, 6), testing::Values("recursive_doubling", "one_shot")), name_of);

TEST(AllReduce, every_count_up_to_257_at_every_offset) {
  std::atomic<int> wrong{0};
  for (const char* algorithm : {"auto", "two_phase", "ring"})
    run_threads(3, [&](Communicator& comm) {
      for (std::size_t count = 0; count <= 257; ++count)
        wrong += check_all_reduce<float>(comm, count, ReduceOp::sum, count % 2 == 1, count % 16);
    }, small_buffers(algorithm));
  EXPECT_EQ(wrong, 0);
}

// Inputs whose sums have to be rounded, and what each rank got.
template <class T>
std::vector<std::vector<T>> rounded_sums(const std::string& algorithm, int ranks, std::size_t count) {
  std::vector<std::vector<T>> by_rank(static_cast<std::size_t>(ranks));
  const bool heap = algorithm == "two_phase_heap";
  JobOptions options = small_buffers(heap ? "two_phase" : algorithm);
  options.config["direct.one_shot_max_bytes"] = "1048576";
  run_threads(ranks, [&](Communicator& comm) {
    std::vector<T> own(count);
    T* x = heap ? static_cast<T*>(comm.heap_allocate(count * sizeof(T))) : own.data();
    for (std::size_t i = 0; i < count; ++i) x[i] = T(1.0f / static_cast<float>(i + 1) + 1e3f * static_cast<float>(comm.rank() + 1) / 3);
    comm.all_reduce(x, x, count, dtype_of<T>::value, ReduceOp::sum);
    by_rank[static_cast<std::size_t>(comm.rank())].assign(x, x + count);
  }, options);
  return by_rank;
}

template <class T>
void expect_same_bits_on_all_ranks_and_paths() {
  constexpr int kRanks = 5;
  constexpr std::size_t kCount = 5000;
  std::vector<T> first;
  for (const char* algorithm : {"one_shot", "two_phase", "two_phase_heap"}) {
    const auto by_rank = rounded_sums<T>(algorithm, kRanks, kCount);
    if (first.empty()) first = by_rank[0];
    for (const auto& r : by_rank) EXPECT_EQ(0, std::memcmp(r.data(), first.data(), kCount * sizeof(T))) << algorithm;
  }
  const auto by_ring = rounded_sums<T>("ring", kRanks, kCount), again = rounded_sums<T>("ring", kRanks, kCount);
  for (const auto* run : {&by_ring, &again})
    for (const auto& r : *run) EXPECT_EQ(0, std::memcmp(r.data(), by_ring[0].data(), kCount * sizeof(T)));
}

TEST(AllReduce, rounding_is_the_same_on_all_ranks_and_paths_that_reduce_in_rank_order) {
  expect_same_bits_on_all_ranks_and_paths<float>();
  expect_same_bits_on_all_ranks_and_paths<float16>();
  expect_same_bits_on_all_ranks_and_paths<bfloat16>();
}

// What the direct paths promise of halves: as one sum in f32, in rank order, rounded once.
TEST(AllReduce, halves_are_rounded_once) {
  for (const char* algorithm : {"one_shot", "two_phase"}) {
    const auto found = rounded_sums<bfloat16>(algorithm, 4, 1000);
    for (std::size_t i = 0; i < 1000; ++i) {
      float sum = 0;
      for (int r = 0; r < 4; ++r) sum += bfloat16(1.0f / static_cast<float>(i + 1) + 1e3f * static_cast<float>(r + 1) / 3);
      ASSERT_EQ(found[0][i].bits, bfloat16(sum).bits) << algorithm << " element " << i;
    }
  }
}

class Counters : public testing::TestWithParam<std::string> {};

// Operation, chunk and ring counters cross 2^31, 2^32 and 2^63 in the middle of work.
TEST_P(Counters, pass_the_wrap) {
  for (const char* algorithm : {"auto", "two_phase", "ring"}) {
    std::atomic<int> wrong{0};
    run_threads(3, [&](Communicator& comm) {
      for (int i = 0; i < 40; ++i) {
        wrong += check_all_reduce<std::int64_t>(comm, 3000, ReduceOp::sum, true, 0);
        wrong += check_all_reduce<float>(comm, 3, ReduceOp::max, true, 0);
        float b[1000];
        for (float& v : b) v = comm.rank() == i % 3 ? static_cast<float>(i) : -1.0f;
        comm.broadcast(b, 1000, DType::f32, i % 3);
        for (float v : b) wrong += v != static_cast<float>(i);
      }
    }, small_buffers(algorithm, GetParam()));
    EXPECT_EQ(wrong, 0) << algorithm;
  }
}
INSTANTIATE_TEST_SUITE_P(starts, Counters, testing::Values("2147483640", "4294967288", "9223372036854775800"));

class Heap : public testing::TestWithParam<int> {};

TEST_P(Heap, buffers_are_reduced_in_place_and_out_of_place_also_when_only_some_ranks_use_it) {
  std::atomic<int> wrong{0};
  run_threads(GetParam(), [&](Communicator& comm) {
    for (const std::size_t count : {1u, 16u, 17u, 1000u, 1023u, 40000u}) {
      for (const int mode : {0, 1, 2}) {  // in place, out of place, rank 1 not in the heap
        std::vector<double> private_in(count), private_out(count);
        const bool uses_heap = mode != 2 || comm.rank() != 1;
        double* in = uses_heap ? static_cast<double*>(comm.heap_allocate(count * sizeof(double))) : private_in.data();
        double* out = mode == 0 ? in : uses_heap ? static_cast<double*>(comm.heap_allocate(count * sizeof(double))) : private_out.data();
        for (std::size_t i = 0; i < count; ++i) in[i] = input_value<double>(comm.rank(), i);
        comm.all_reduce(in, out, count, DType::f64, ReduceOp::avg);
        for (std::size_t i = 0; i < count; ++i) {
          wrong += out[i] != expected_value<double>(comm.size(), i, ReduceOp::avg);
          wrong += mode != 0 && in[i] != input_value<double>(comm.rank(), i);
        }
        comm.barrier();  // peers have read this rank's results before it frees them
        if (uses_heap) comm.heap_free(in);
        if (uses_heap && out != in) comm.heap_free(out);
      }
    }
  }, small_buffers("two_phase"));
  EXPECT_EQ(wrong, 0);
}
INSTANTIATE_TEST_SUITE_P(groups, Heap, testing::Values(2, 3, 4, 8));

class BroadcastMatrix : public testing::TestWithParam<std::tuple<int, std::string>> {};

TEST_P(BroadcastMatrix, every_root_and_count) {
  const auto& [ranks, algorithm] = GetParam();
  JobOptions options = small_buffers("auto");
  options.config["broadcast.algorithm"] = algorithm;
  std::atomic<int> wrong{0};
  run_threads(ranks, [&](Communicator& comm) {
    for (const std::size_t count : counts())
      for (int root = 0; root < comm.size(); ++root) {
        ShiftedBuffer<std::int32_t> b(count, count % 4);
        for (std::size_t i = 0; i < count; ++i) b.data()[i] = comm.rank() == root ? input_value<std::int32_t>(root, i) : -9;
        comm.broadcast(b.data(), count, DType::i32, root);
        for (std::size_t i = 0; i < count; ++i) wrong += b.data()[i] != input_value<std::int32_t>(root, i);
        wrong += !b.guards_intact();
      }
  }, options);
  EXPECT_EQ(wrong, 0);
}
INSTANTIATE_TEST_SUITE_P(groups, BroadcastMatrix,
                         testing::Combine(testing::Values(1, 2, 3, 5, 8), testing::Values("auto", "ring", "tree")), name_of);

TEST(Broadcast, carries_every_type) {
  std::atomic<int> wrong{0};
  for (const char* algorithm : {"auto", "ring", "tree"}) {
    JobOptions options = small_buffers("auto");
    options.config["broadcast.algorithm"] = algorithm;
    run_threads(3, [&](Communicator& comm) {
      for (int t = 0; t < kDTypeCount; ++t)
        for (const std::size_t count : {1u, 3u, 17u, 4099u}) {
          const auto dtype = static_cast<DType>(t);
          ShiftedBuffer<std::uint8_t> b(count * dtype_bytes(dtype), count % 3);
          for (std::size_t i = 0; i < b.size(); ++i) b.data()[i] = comm.rank() == 1 ? static_cast<std::uint8_t>(i % 251) : 0;
          comm.broadcast(b.data(), count, dtype, 1);
          for (std::size_t i = 0; i < b.size(); ++i) wrong += b.data()[i] != i % 251;
          wrong += !b.guards_intact();
        }
    }, options);
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Mixed, operations_in_turn_do_not_disturb_each_other) {
  std::atomic<int> wrong{0};
  run_threads(4, [&](Communicator& comm) {
    std::uint64_t state = 12345;  // the same on all ranks
    for (int i = 0; i < 400; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const std::size_t count = (state >> 33) % 5000;
      switch ((state >> 20) % 4) {
        case 0: wrong += check_all_reduce<float>(comm, count, ReduceOp::sum, true, 0); break;
        case 1: wrong += check_all_reduce<std::int32_t>(comm, count % 300, ReduceOp::min, false, 1); break;
        case 2: comm.barrier(); break;
        case 3: {
          std::vector<double> b(count, comm.rank() == i % 4 ? i : -1);
          comm.broadcast(b.data(), count, DType::f64, i % 4);
          for (double v : b) wrong += v != i;
        }
      }
    }
  }, small_buffers("auto"));
  EXPECT_EQ(wrong, 0);
}

TEST(Barrier, nobody_leaves_before_all_have_entered) {
  constexpr int kRanks = 6;
  std::atomic<int> entered{0}, early{0};
  run_threads(kRanks, [&](Communicator& comm) {
    for (int round = 1; round <= 200; ++round) {
      ++entered;
      comm.barrier();
      early += entered < round * kRanks;
      comm.barrier();
    }
  });
  EXPECT_EQ(early, 0);
}

}  // namespace
}  // namespace slipring::tests
