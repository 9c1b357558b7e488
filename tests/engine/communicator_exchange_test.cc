// The operations that move blocks: every group size x count x root, in and out of place, misaligned, along every
// dimension, out of private memory and heaps, one after the other in random order. Ranks are threads; buffers of the
// paths are configured small, so that small counts cross every internal boundary.
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <random>

#include "reduction_reference.h"
#include "slipring/communicator.h"

namespace slipring::tests {
namespace {

JobOptions small_buffers(const std::string& start = "0") {
  return {.config = {{"direct.one_shot_max_bytes", "2048"}, {"direct.chunk_bytes", "4096"}, {"heap.max_bytes", "16777216"},
                     {"channel.bytes", "8192"}, {"channel.slots", "4"}, {"op.timeout_ms", "60000"}, {"test.counter_start", start}}};
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

std::vector<std::size_t> counts(int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<std::size_t> c = {0, 1, 3, n - 1, n, n + 1, 17, 257, 3000};
  if (!kSanitized) c.insert(c.end(), {2, 7, 12, 13, 64, 127, 128, 129, 511, 1024, 2049, 10007});
  return c;
}

std::vector<int> group_sizes() {
  if (kSanitized) return {1, 2, 3, 5, 8};
  std::vector<int> sizes(16);
  std::iota(sizes.begin(), sizes.end(), 1);
  return sizes;
}

// What `from` has for `to` at position i.
template <class T>
T item(int from, int to, std::size_t i) {
  return static_cast<T>((static_cast<std::size_t>(from) * 7 + static_cast<std::size_t>(to) * 31 + i * 3) % 101);
}

// A buffer with guards, in private memory or in the rank's heap.
template <class T>
class Memory {
 public:
  Memory(Communicator& comm, bool heap, std::size_t count, std::size_t shift) : comm_(comm), heap_(heap), count_(count), shift_(shift + kGuard) {
    const std::size_t all = count + shift_ + kGuard;
    if (heap)
      base_ = static_cast<T*>(comm.heap_allocate(all * sizeof(T)));
    else
      base_ = (own_ = std::vector<T>(all)).data();
    std::fill_n(base_, all, kMark);
  }
  ~Memory() {
    if (heap_) comm_.heap_free(base_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  T* data() { return base_ + shift_; }
  T& operator[](std::size_t i) { return data()[i]; }
  bool guards_intact() const {
    for (std::size_t i = 0; i < count_ + shift_ + kGuard; ++i)
      if ((i < shift_ || i >= shift_ + count_) && base_[i] != kMark) return false;
    return true;
  }

 private:
  static constexpr std::size_t kGuard = 16;
  static constexpr T kMark = static_cast<T>(77);
  Communicator& comm_;
  bool heap_;
  std::size_t count_, shift_;
  std::vector<T> own_;
  T* base_;
};

struct Variant {
  bool in_place, heap;
  std::size_t shift;
};

template <class T, DType kType = dtype_of<T>::value>
class Checks {
 public:
  Checks(Communicator& comm, Variant v) : comm_(comm), v_(v), me_(comm.rank()), n_(static_cast<std::size_t>(comm.size())) {}

  int all_gather(std::size_t count) {
    Memory<T> in(comm_, v_.heap, count, v_.shift), out(comm_, v_.heap, count * n_, v_.shift + 1);
    T* const own = v_.in_place ? out.data() + static_cast<std::size_t>(me_) * count : in.data();
    for (std::size_t i = 0; i < count; ++i) own[i] = item<T>(me_, 0, i);
    comm_.all_gather(own, out.data(), count, kType);
    return gathered(out, in, count);
  }
  int gather(std::size_t count, int root) {
    const bool is_root = me_ == root;
    Memory<T> in(comm_, v_.heap, count, v_.shift), out(comm_, v_.heap, is_root ? count * n_ : 0, v_.shift + 1);
    T* const own = v_.in_place && is_root ? out.data() + static_cast<std::size_t>(me_) * count : in.data();
    for (std::size_t i = 0; i < count; ++i) own[i] = item<T>(me_, 0, i);
    const bool got = comm_.gather(own, is_root ? out.data() : nullptr, count, kType, root);
    return (got != is_root) + (is_root ? gathered(out, in, count) : 0);
  }
  int scatter(std::size_t count, int root) {
    const bool is_root = me_ == root;
    Memory<T> in(comm_, v_.heap, is_root ? count * n_ : 0, v_.shift), out(comm_, v_.heap, count, v_.shift + 1);
    if (is_root) fill_blocks(in, count);
    T* const own = v_.in_place && is_root ? in.data() + static_cast<std::size_t>(me_) * count : out.data();
    comm_.scatter(is_root ? in.data() : nullptr, own, count, kType, root);
    int wrong = !in.guards_intact() + !out.guards_intact();
    for (std::size_t i = 0; i < count; ++i) wrong += own[i] != item<T>(root, me_, i);
    return wrong;
  }
  int all_to_all(std::size_t count) {
    Memory<T> in(comm_, v_.heap, count * n_, v_.shift), out(comm_, v_.heap, count * n_, v_.shift + 1);
    fill_blocks(in, count);
    Memory<T>& result = v_.in_place ? in : out;
    comm_.all_to_all(in.data(), result.data(), count, kType);
    int wrong = !in.guards_intact() + !out.guards_intact();
    for (std::size_t s = 0; s < n_; ++s)
      for (std::size_t i = 0; i < count; ++i) wrong += result[s * count + i] != item<T>(static_cast<int>(s), me_, i);
    return wrong;
  }
  int reduce_scatter(std::size_t count, ReduceOp op) {
    Memory<T> in(comm_, v_.heap, count * n_, v_.shift), out(comm_, v_.heap, count, v_.shift + 1);
    for (std::size_t i = 0; i < count * n_; ++i) in[i] = input_value<T>(me_, i);
    T* const own = v_.in_place ? in.data() + static_cast<std::size_t>(me_) * count : out.data();
    comm_.reduce_scatter(in.data(), own, count, kType, op);
    int wrong = !in.guards_intact() + !out.guards_intact();
    for (std::size_t i = 0; i < count; ++i) wrong += own[i] != expected_value<T>(comm_.size(), static_cast<std::size_t>(me_) * count + i, op);
    return wrong;
  }
  int reduce(std::size_t count, ReduceOp op, int root) {
    const bool is_root = me_ == root;
    Memory<T> in(comm_, v_.heap, count, v_.shift), out(comm_, v_.heap, is_root ? count : 0, v_.shift + 1);
    for (std::size_t i = 0; i < count; ++i) in[i] = input_value<T>(me_, i);
    T* const result = !is_root ? nullptr : v_.in_place ? in.data() : out.data();
    comm_.reduce(in.data(), result, count, kType, op, root);
    int wrong = !in.guards_intact() + !out.guards_intact();
    for (std::size_t i = 0; i < count; ++i) {
      if (is_root) wrong += result[i] != expected_value<T>(comm_.size(), i, op);
      if (!is_root || !v_.in_place) wrong += in[i] != input_value<T>(me_, i);
    }
    return wrong;
  }
  int broadcast(std::size_t count, int root) {
    Memory<T> x(comm_, v_.heap, count, v_.shift);
    for (std::size_t i = 0; i < count; ++i) x[i] = me_ == root ? item<T>(root, 3, i) : T(99);
    comm_.broadcast(x.data(), count, kType, root);
    int wrong = !x.guards_intact();
    for (std::size_t i = 0; i < count; ++i) wrong += x[i] != item<T>(root, 3, i);
    return wrong;
  }
  // Counts differ by rank, some are zero.
  int varying(std::size_t count, int root) {
    std::vector<std::size_t> sizes(n_);
    for (std::size_t r = 0; r < n_; ++r) sizes[r] = (r + static_cast<std::size_t>(root)) % 3 == 1 ? 0 : count + r * 5;
    const std::size_t total = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    const std::size_t own = sizes[static_cast<std::size_t>(me_)];
    const std::size_t before = std::accumulate(sizes.begin(), sizes.begin() + me_, std::size_t{0});
    const bool is_root = me_ == root;
    int wrong = 0;
    {
      Memory<T> in(comm_, v_.heap, own, v_.shift), out(comm_, v_.heap, total, v_.shift + 1), rooted(comm_, v_.heap, is_root ? total : 0, 0);
      T* const mine = v_.in_place ? out.data() + before : in.data();
      for (std::size_t i = 0; i < own; ++i) mine[i] = in[i] = item<T>(me_, 0, i);
      comm_.all_gatherv(mine, out.data(), sizes, kType);
      comm_.gatherv(in.data(), own, is_root ? rooted.data() : nullptr, is_root ? std::span<const std::size_t>(sizes) : std::span<const std::size_t>(),
                    kType, root);
      wrong += !in.guards_intact() + !out.guards_intact() + !rooted.guards_intact();
      for (std::size_t r = 0, k = 0; r < n_; ++r)
        for (std::size_t i = 0; i < sizes[r]; ++i, ++k) {
          wrong += out[k] != item<T>(static_cast<int>(r), 0, i);
          if (is_root) wrong += rooted[k] != item<T>(static_cast<int>(r), 0, i);
        }
    }
    {
      Memory<T> in(comm_, v_.heap, is_root ? total : 0, v_.shift), out(comm_, v_.heap, own, v_.shift);
      if (is_root)
        for (std::size_t r = 0, k = 0; r < n_; ++r)
          for (std::size_t i = 0; i < sizes[r]; ++i, ++k) in[k] = item<T>(root, static_cast<int>(r), i);
      comm_.scatterv(is_root ? in.data() : nullptr, sizes, out.data(), own, kType, root);
      wrong += !in.guards_intact() + !out.guards_intact();
      for (std::size_t i = 0; i < own; ++i) wrong += out[i] != item<T>(root, me_, i);
    }
    if constexpr (is_reducible(kType)) {
      Memory<T> in(comm_, v_.heap, total, v_.shift), out(comm_, v_.heap, own, v_.shift + 1);
      for (std::size_t i = 0; i < total; ++i) in[i] = input_value<T>(me_, i);
      T* const mine = v_.in_place ? in.data() + before : out.data();
      comm_.reduce_scatterv(in.data(), mine, sizes, kType, ReduceOp::sum);
      wrong += !in.guards_intact() + !out.guards_intact();
      for (std::size_t i = 0; i < own; ++i) wrong += mine[i] != expected_value<T>(comm_.size(), before + i, ReduceOp::sum);
    }
    {
      const auto between = [count](std::size_t s, std::size_t d) { return (s * 3 + d) % 4 == 0 ? 0 : count + s + 2 * d; };
      std::vector<std::size_t> to(n_), from(n_);
      for (std::size_t r = 0; r < n_; ++r) to[r] = between(static_cast<std::size_t>(me_), r), from[r] = between(r, static_cast<std::size_t>(me_));
      Memory<T> in(comm_, v_.heap, std::accumulate(to.begin(), to.end(), std::size_t{0}), v_.shift);
      Memory<T> out(comm_, v_.heap, std::accumulate(from.begin(), from.end(), std::size_t{0}), v_.shift);
      for (std::size_t r = 0, k = 0; r < n_; ++r)
        for (std::size_t i = 0; i < to[r]; ++i, ++k) in[k] = item<T>(me_, static_cast<int>(r), i);
      comm_.all_to_allv(in.data(), to, out.data(), from, kType);
      wrong += !in.guards_intact() + !out.guards_intact();
      for (std::size_t r = 0, k = 0; r < n_; ++r)
        for (std::size_t i = 0; i < from[r]; ++i, ++k) wrong += out[k] != item<T>(static_cast<int>(r), me_, i);
    }
    return wrong;
  }

 private:
  int gathered(Memory<T>& out, Memory<T>& in, std::size_t count) {
    int wrong = !in.guards_intact() + !out.guards_intact();
    for (std::size_t r = 0; r < n_; ++r)
      for (std::size_t i = 0; i < count; ++i) wrong += out[r * count + i] != item<T>(static_cast<int>(r), 0, i);
    return wrong;
  }
  void fill_blocks(Memory<T>& in, std::size_t count) {
    for (std::size_t d = 0; d < n_; ++d)
      for (std::size_t i = 0; i < count; ++i) in[d * count + i] = item<T>(me_, static_cast<int>(d), i);
  }

  Communicator& comm_;
  const Variant v_;
  const int me_;
  const std::size_t n_;
};

template <class T, DType kType = dtype_of<T>::value>
int every_operation(Communicator& comm, std::size_t count, Variant v, int root) {
  Checks<T, kType> c(comm, v);
  int wrong = c.all_gather(count) + c.all_to_all(count) + c.gather(count, root) + c.scatter(count, root) + c.broadcast(count, root);
  if constexpr (!is_reducible(kType)) return wrong + c.varying(count, root);
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg})
    wrong += c.reduce_scatter(count, op) + c.reduce(count, op, root);
  return wrong + c.varying(count, root);
}

// One in each round: 11 is prime to the four variants, so that each type meets them all.
int further_type(Communicator& comm, int round, std::size_t count, Variant v, int root) {
  switch (round % 11) {
    case 0: return every_operation<std::int8_t>(comm, count, v, root);
    case 1: return every_operation<std::uint8_t>(comm, count, v, root);
    case 2: return every_operation<std::uint32_t>(comm, count, v, root);
    case 3: return every_operation<std::uint64_t>(comm, count, v, root);
    case 4: return every_operation<float16>(comm, count, v, root);
    case 5: return every_operation<bfloat16>(comm, count, v, root);
    case 6: return every_operation<std::uint8_t, DType::boolean>(comm, count, v, root);
    case 7: return every_operation<std::uint8_t, DType::fp8_e4m3>(comm, count, v, root);
    case 8: return every_operation<std::uint8_t, DType::fp8_e5m2>(comm, count, v, root);
    case 9: return every_operation<std::int32_t>(comm, count, v, root);
    default: return every_operation<double>(comm, count, v, root);
  }
}

class Exchange : public testing::TestWithParam<int> {};

TEST_P(Exchange, is_exact_for_every_operation_count_and_placement) {
  std::atomic<int> wrong{0};
  run_threads(GetParam(), [&](Communicator& comm) {
    int round = 0;
    for (const std::size_t count : counts(comm.size()))
      for (const bool in_place : {false, true})
        for (const bool heap : {false, true}) {
          const Variant v{in_place, heap, count % 3};
          const int root = round++ % comm.size();
          wrong += every_operation<float>(comm, count, v, root) + every_operation<std::int64_t>(comm, count, v, root);
          wrong += further_type(comm, round, count, v, root);
        }
  }, small_buffers());
  EXPECT_EQ(wrong, 0);
}
INSTANTIATE_TEST_SUITE_P(groups, Exchange, testing::ValuesIn(group_sizes()));

TEST(Blocks, works_for_every_root) {
  std::atomic<int> wrong{0};
  for (const int ranks : {2, 3, 7})
    run_threads(ranks, [&](Communicator& comm) {
      for (int root = 0; root < comm.size(); ++root)
        for (const std::size_t count : {std::size_t{3}, std::size_t{100}, std::size_t{5000}}) {
          Checks<float> c(comm, {root % 2 == 0, count == 100, 1});
          wrong += c.gather(count, root) + c.scatter(count, root) + c.broadcast(count, root) + c.reduce(count, ReduceOp::sum, root) +
                   c.varying(count, root);
        }
    }, small_buffers());
  EXPECT_EQ(wrong, 0);
}

// What the ranks do next must not depend on how far the others are: operations of all kinds and sizes follow each other
// at random, with ranks that dawdle. Counters cross their wrap meanwhile.
TEST(Blocks, operations_in_random_order_with_slow_ranks) {
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  for (const char* start : {"0", "2147483600", "9223372036854775700"}) {
    std::atomic<int> wrong{0};
    run_threads(4, [&](Communicator& comm) {
      std::mt19937 common(seed), own(seed + 1 + static_cast<unsigned>(comm.rank()));
      for (int i = 0; i < (kSanitized ? 150 : 1500); ++i) {
        const std::size_t sizes[] = {1, 10, 100, 600, 2000, 6000};
        const std::size_t count = sizes[common() % 6] + common() % 3;
        const int root = static_cast<int>(common() % 4);
        const bool all_heap = common() % 4 == 0;
        Checks<float> c(comm, {common() % 2 == 0, all_heap || own() % 4 == 0, own() % 4});
        if (own() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 300));
        switch (common() % 10) {
          case 0: wrong += c.all_gather(count); break;
          case 1: wrong += c.gather(count, root); break;
          case 2: wrong += c.scatter(count, root); break;
          case 3: wrong += c.all_to_all(count); break;
          case 4: wrong += c.reduce_scatter(count, ReduceOp::sum); break;
          case 5: wrong += c.reduce(count, ReduceOp::max, root); break;
          case 6: wrong += c.broadcast(count, root); break;
          case 7: wrong += c.varying(count, root); break;
          case 8: comm.barrier(); break;
          case 9: {
            std::vector<float> x(count, static_cast<float>(comm.rank()));
            comm.all_reduce(std::span(x), ReduceOp::sum);
            for (const float v : x) wrong += v != 6.0f;
          }
        }
      }
    }, small_buffers(start));
    EXPECT_EQ(wrong, 0) << start;
  }
}

TEST(Dimensions, all_gather_gather_and_reduce_scatter_follow_dim) {
  std::atomic<int> wrong{0};
  for (const int ranks : {1, 2, 3, 4})
    for (const std::size_t scale : {std::size_t{1}, std::size_t{40}})
      run_threads(ranks, [&](Communicator& comm) {
        const std::size_t n = static_cast<std::size_t>(comm.size()), me = static_cast<std::size_t>(comm.rank());
        for (int dim = -3; dim < 3; ++dim)
          for (const bool heap : {false, true}) {
            const std::size_t along = static_cast<std::size_t>(dim < 0 ? dim + 3 : dim);
            const std::size_t part[3] = {3, 5 * scale, 2};
            std::size_t whole[3] = {3, 5 * scale, 2};
            whole[along] *= n;
            const std::size_t count = part[0] * part[1] * part[2];
            const auto value = [](std::size_t a, std::size_t b, std::size_t c) { return static_cast<float>((a * 31 + b * 7 + c) % 4096); };
            const auto visit = [&](auto&& f) {
              for (std::size_t a = 0; a < part[0]; ++a)
                for (std::size_t b = 0; b < part[1]; ++b)
                  for (std::size_t c = 0; c < part[2]; ++c) f(a, b, c, (a * part[1] + b) * part[2] + c);
            };
            // Coordinates in the whole of an element of rank r's part.
            const auto in_whole = [&](std::size_t r, std::size_t at[3]) { at[along] += r * part[along]; };
            Memory<float> in(comm, heap, count, 1), all(comm, heap, count * n, 0), rooted(comm, heap, count * n, 0), out(comm, heap, count, 0);
            visit([&](std::size_t a, std::size_t b, std::size_t c, std::size_t i) {
              std::size_t at[3] = {a, b, c};
              in_whole(me, at);
              in[i] = value(at[0], at[1], at[2]);
            });
            const int root = comm.size() - 1;
            comm.all_gather(in.data(), all.data(), part, dim, DType::f32);
            wrong += comm.gather(in.data(), rooted.data(), part, dim, DType::f32, root) != (comm.rank() == root);
            comm.reduce_scatter(all.data(), out.data(), whole, dim, DType::f32, ReduceOp::sum);
            for (std::size_t a = 0; a < whole[0]; ++a)
              for (std::size_t b = 0; b < whole[1]; ++b)
                for (std::size_t c = 0; c < whole[2]; ++c) {
                  const std::size_t i = (a * whole[1] + b) * whole[2] + c;
                  wrong += all[i] != value(a, b, c);
                  if (comm.rank() == root) wrong += rooted[i] != value(a, b, c);
                }
            for (std::size_t i = 0; i < count; ++i) wrong += out[i] != in[i] * static_cast<float>(n);
            wrong += !in.guards_intact() + !all.guards_intact() + !out.guards_intact();
            wrong += !comm.gather(in.data(), all.data(), part, dim, DType::f32, root, GatherMode::spmd);
          }
      }, small_buffers());
  EXPECT_EQ(wrong, 0);
}

// Calls with bad arguments are refused on the rank that makes them, with nothing sent: the communicator goes on.
TEST(Refused, bad_arguments_leave_the_communicator_usable) {
  std::atomic<int> accepted{0}, texts{0};
  run_threads(2, [&](Communicator& comm) {
    float x[8] = {}, y[8] = {};
    const std::size_t two[] = {1, 1}, one[] = {1}, huge[] = {std::size_t{1} << 62, std::size_t{1} << 62}, shape[] = {3, 2};
    const auto refused = [&](auto&& call, const char* text) {
      try {
        call();
        ++accepted;
      } catch (const Error& e) {
        if (e.code() != StatusCode::invalid_argument || std::string(e.what()).find(text) == std::string::npos) {
          ++texts;
          std::printf("%s\n", e.what());
        }
      }
    };
    refused([&] { comm.all_gather(nullptr, y, 2, DType::f32); }, "input buffer is null");
    refused([&] { comm.all_gather(x, nullptr, 2, DType::f32); }, "output buffer is null");
    refused([&] { comm.all_gather(x + 1, x, 4, DType::f32); }, "overlap");
    refused([&] { comm.all_gather(x, y, static_cast<std::size_t>(-1), DType::f32); }, "negative");
    refused([&] { comm.all_gather(x, y, 1, static_cast<DType>(200)); }, "dtype number 200");
    refused([&] { comm.all_gatherv(x, y, one, DType::f32); }, "1 entries for 2 ranks");
    refused([&] { comm.all_gatherv(x, y, huge, DType::f32); }, "add up");
    refused([&] { comm.all_gather(x, y, shape, 2, DType::f32); }, "dim 2");
    refused([&] { comm.reduce_scatter(x, y, shape, 0, DType::f32, ReduceOp::sum); }, "not a multiple of 2 ranks");
    refused([&] { comm.reduce_scatter(x, y, 1, DType::f32, static_cast<ReduceOp>(9)); }, "operator number 9");
    refused([&] { comm.gather(x, y, 1, DType::f32, 2); }, "root 2");
    refused([&] { comm.scatter(x, y, 1, DType::f32, -1); }, "root -1");
    refused([&] { comm.reduce(x, y, 1, DType::f32, ReduceOp::sum, 7); }, "root 7");
    refused([&] { comm.all_to_allv(x, two, x, two, DType::f32); }, "overlap");
    comm.barrier();
    comm.all_gather(x, y, 2, DType::f32);
  }, small_buffers());
  EXPECT_EQ(accepted, 0);
  EXPECT_EQ(texts, 0);
}

// On every rank, with nothing sent: the communicator goes on.
TEST(Refused, reductions_of_types_that_are_only_carried_name_the_type_and_the_remedy) {
  std::atomic<int> refused{0}, other{0};
  run_threads(3, [&](Communicator& comm) {
    std::uint8_t x[12] = {}, y[12] = {};
    const std::size_t counts[] = {1, 2, 1};
    const auto try_all = [&](DType dtype, const std::string& remedy) {
      const auto expect = [&](auto&& call) {
        try {
          call();
          ++other;
        } catch (const Error& e) {
          const std::string text = e.what();
          const bool right = e.code() == StatusCode::unsupported && text.find(remedy) != std::string::npos &&
                             text.find(dtype_name(dtype)) != std::string::npos;
          (right ? refused : other) += 1;
          if (!right) std::printf("%s\n", e.what());
        }
      };
      for (int op = 0; op < kReduceOpCount; ++op) {
        const auto redop = static_cast<ReduceOp>(op);
        expect([&] { comm.all_reduce(x, y, 3, dtype, redop); });
        expect([&] { comm.reduce(x, y, 3, dtype, redop, 1); });
        expect([&] { comm.reduce_scatter(x, y, 3, dtype, redop); });
        expect([&] { comm.reduce_scatterv(x, y, counts, dtype, redop); });
      }
    };
    try_all(DType::boolean, "reduce the same bytes as u8");
    try_all(DType::fp8_e4m3, "convert to f16");
    try_all(DType::fp8_e5m2, "convert to f16");
    comm.all_gather(x, y, 3, DType::boolean);
    comm.all_reduce(x, y, 3, DType::u8, ReduceOp::max);
  }, small_buffers());
  EXPECT_EQ(refused, 3 * 3 * 4 * kReduceOpCount);
  EXPECT_EQ(other, 0);
}

// Ranks that disagree all end with an error that shows both sides.
TEST(Disagreement, is_found_on_every_rank) {
  const auto fails_everywhere = [](const char* what, auto&& call, const char* text) {
    std::atomic<int> found{0}, other{0};
    run_threads(2, [&](Communicator& comm) {
      try {
        call(comm);
        comm.barrier();
        comm.barrier();
      } catch (const Error& e) {
        const bool right = std::string(e.what()).find(text) != std::string::npos;
        (right ? found : other) += 1;
        if (!right) std::printf("%s: %s\n", what, e.what());
      }
    }, small_buffers());
    EXPECT_EQ(found, 2) << what;
    EXPECT_EQ(other, 0) << what;
  };
  float x[64] = {};
  std::vector<float> y0(256), y1(256);
  const auto y = [&](Communicator& c) { return c.rank() == 0 ? y0.data() : y1.data(); };
  fails_everywhere("counts", [&](Communicator& c) { c.all_gather(x, y(c), c.rank() == 0 ? 3 : 4, DType::f32); }, "all_gather of 3 f32");
  fails_everywhere("types", [&](Communicator& c) { c.all_to_all(x, y(c), 4, c.rank() == 0 ? DType::f32 : DType::i32); }, "all_to_all of 4 i32");
  fails_everywhere("operations", [&](Communicator& c) {
    if (c.rank() == 0) c.all_gather(x, y(c), 4, DType::f32);
    else c.all_to_all(x, y(c), 4, DType::f32);
  }, "all_to_all");
  fails_everywhere("v counts", [&](Communicator& c) {
    const std::size_t counts[] = {2, static_cast<std::size_t>(2 + c.rank())};
    c.all_gatherv(x, y(c), counts, DType::f32);
  }, "all_gatherv");
  fails_everywhere("sent and expected", [&](Communicator& c) {
    const std::size_t in[] = {1, 2}, out[] = {1, 1};
    c.all_to_allv(x, in, y(c), out, DType::f32);
  }, "expects 1");
  fails_everywhere("roots", [&](Communicator& c) { c.gather(x, y(c), 4, DType::f32, c.rank()); }, "gather of 4 f32");
}

}  // namespace
}  // namespace slipring::tests
