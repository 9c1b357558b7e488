// Collectives by declared levels of the node: exact, the same bits on all ranks, with all that can go wrong.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "reduction_reference.h"
#include "slipring/communicator.h"

namespace slipring::tests {
namespace {

struct Shape {
  int ranks;
  const char* domains;
};

class Levels : public ::testing::TestWithParam<Shape> {
 protected:
  void run(const std::function<void(Communicator&)>& body) {
    run_threads(GetParam().ranks, body, {.config = {{"topology.domains", GetParam().domains}, {"group.max_bytes", "4294967296"}}});
  }
  std::atomic<int> wrong{0};
};

INSTANTIATE_TEST_SUITE_P(Hierarchies, Levels,
                         ::testing::Values(Shape{4, "2"}, Shape{3, "2"}, Shape{5, "2"}, Shape{6, "3"}, Shape{8, "2,4"}, Shape{8, "4,8"},
                                           Shape{7, "2,4"}, Shape{12, "2,6"}, Shape{12, "2,4,8"}, Shape{16, "2,4,8"}),
                         [](const auto& shape) {
                           std::string name = shape.param.domains;
                           std::replace(name.begin(), name.end(), ',', '_');
                           return std::to_string(shape.param.ranks) + "_by_" + name;
                         });

constexpr std::size_t kCounts[] = {0, 1, 3, 17, 257, 8191, 8193, 65'537};

TEST_P(Levels, are_what_the_selector_says) {
  run([&](Communicator& comm) {
    for (const char* op : {"all_reduce", "reduce", "broadcast", "barrier"}) wrong += comm.explain(op, 100).algorithm != "levels";
    wrong += comm.explain("all_gather", 100).algorithm == "levels";
    wrong += comm.explain("all_reduce", 100).reason.find("domains of the node") == std::string::npos;
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(Levels, reduce_exactly_in_and_out_of_place) {
  run([&](Communicator& comm) {
    for (const std::size_t count : kCounts)
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::avg}) {
        std::vector<std::int32_t> in(count), out(count, -1);
        for (std::size_t i = 0; i < count; ++i) in[i] = input_value<std::int32_t>(comm.rank(), i);
        const auto check = [&](const std::vector<std::int32_t>& result) {
          for (std::size_t i = 0; i < count; ++i) wrong += result[i] != expected_value<std::int32_t>(comm.size(), i, op);
        };
        const std::vector<std::int32_t> kept = in;
        comm.all_reduce(in.data(), out.data(), count, DType::i32, op);
        check(out);
        wrong += in != kept;
        const int root = static_cast<int>(count % static_cast<std::size_t>(comm.size()));
        comm.reduce(in.data(), comm.rank() == root ? out.data() : nullptr, count, DType::i32, op, root);
        if (comm.rank() == root) check(out);
        comm.all_reduce(in.data(), in.data(), count, DType::i32, op);
        check(in);
      }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(Levels, give_all_ranks_the_same_bits) {
  run([&](Communicator& comm) {
    for (const std::size_t count : kCounts) {
      std::vector<float> x(count);
      for (std::size_t i = 0; i < count; ++i) x[i] = 1.0f / static_cast<float>(i % 97 + 13u * static_cast<unsigned>(comm.rank()) + 1);
      comm.all_reduce(std::span(x), ReduceOp::sum);
      std::vector<float> all(count * static_cast<std::size_t>(comm.size()));
      comm.all_gather(x.data(), all.data(), count, DType::f32);
      for (int r = 0; r < comm.size(); ++r)
        wrong += count != 0 && std::memcmp(all.data() + static_cast<std::size_t>(r) * count, x.data(), count * sizeof(float)) != 0;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(Levels, broadcast_from_every_root) {
  run([&](Communicator& comm) {
    for (int root = 0; root < comm.size(); ++root)
      for (const std::size_t count : kCounts) {
        std::vector<std::int64_t> x(count, comm.rank() == root ? 7 + root : -1);
        comm.broadcast(x.data(), count, DType::i64, root);
        for (const std::int64_t v : x) wrong += v != 7 + root;
        if (count == 17) comm.barrier();
      }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(Levels, no_rank_leaves_a_barrier_before_all_have_entered) {
  std::atomic<int> entered{0};
  run([&](Communicator& comm) {
    for (int round = 1; round <= 20; ++round) {
      if (comm.rank() == round % comm.size()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++entered;
      comm.barrier();
      wrong += entered < round * comm.size();
      comm.barrier();
    }
  });
  EXPECT_EQ(wrong, 0);
}

// Whatever a rank in one domain sees, the ranks in the others get too.
TEST_P(Levels, share_one_fate) {
  std::atomic<int> failed{0};
  EXPECT_THROW(run([&](Communicator& comm) {
    std::vector<float> x(64);
    try {
      comm.all_reduce(std::span(x), ReduceOp::sum);  // a slow rank may still be in it when others have failed in the next
      comm.all_reduce(x.data(), x.data(), comm.rank() == comm.size() - 1 ? 63 : 64, DType::f32, ReduceOp::sum);
      comm.barrier();
    } catch (const Error& e) {
      ++failed;
      if (e.code() != StatusCode::mismatch) ++wrong, std::fprintf(stderr, "%s\n", e.what());
      throw;
    }
  }), Error);
  EXPECT_EQ(failed, GetParam().ranks);
  EXPECT_EQ(wrong, 0);
}

TEST(LevelsConfiguration, that_makes_no_sense_is_refused_by_every_rank) {
  try {
    run_threads(4, [](Communicator&) {}, {.config = {{"topology.domains", "4,6"}}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("topology.domains \"4,6\""), std::string::npos) << e.what();
  }
}

TEST(LevelsOfGroups, follow_the_ranks_of_the_group) {
  std::atomic<int> wrong{0};
  run_threads(8, [&](Communicator& comm) {
    Communicator odd = comm.split(comm.rank() % 2);       // by twos of the job: every rank in a domain of its own
    Communicator half = comm.split(comm.rank() / 4);      // two domains of two
    wrong += odd.explain("barrier", 0).algorithm == "levels" || half.explain("barrier", 0).algorithm != "levels";
    std::int64_t x = 1;
    for (Communicator* c : {&odd, &half, &comm}) c->all_reduce(&x, &x, 1, DType::i64, ReduceOp::sum);
    wrong += x != 4 * 4 * 8;
  }, {.config = {{"topology.domains", "2"}}});
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace slipring::tests
