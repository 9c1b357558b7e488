#include "collectives/fingerprint.h"

#include <gtest/gtest.h>

namespace slipring::collectives {
namespace {

TEST(Fingerprint, keeps_every_field) {
  for (const Operation operation : {Operation::all_reduce, Operation::broadcast, Operation::barrier})
    for (const std::uint64_t count : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 31, Fingerprint::kMaxCount - 1})
      for (const int root : {0, 1, 4095}) {
        const Fingerprint f{.operation = operation, .dtype = DType::i64, .op = ReduceOp::avg, .algorithm = 2,
                            .root = static_cast<std::uint16_t>(root), .count = count};
        const Fingerprint g = Fingerprint::unpack(f.pack());
        EXPECT_FALSE(g.leaves);
        EXPECT_EQ(g.operation, f.operation);
        EXPECT_EQ(g.dtype, f.dtype);
        EXPECT_EQ(g.op, f.op);
        EXPECT_EQ(g.algorithm, f.algorithm);
        EXPECT_EQ(g.root, f.root);
        EXPECT_EQ(g.count, f.count);
      }
}

TEST(Fingerprint, of_leaving_is_no_operation) {
  const Fingerprint leaving{.leaves = true};
  EXPECT_TRUE(Fingerprint::unpack(leaving.pack()).leaves);
  EXPECT_EQ(leaving.to_string(), "close");
  for (const Operation operation : {Operation::all_reduce, Operation::broadcast, Operation::barrier})
    EXPECT_NE(leaving.pack(), Fingerprint{.operation = operation}.pack());
}

TEST(Fingerprint, says_what_was_called) {
  EXPECT_EQ((Fingerprint{.operation = Operation::all_reduce, .dtype = DType::f64, .op = ReduceOp::min, .count = 12}).to_string(),
            "all_reduce of 12 f64 min (path 0)");
  EXPECT_EQ((Fingerprint{.operation = Operation::broadcast, .root = 3, .count = 1}).to_string(),
            "broadcast of 1 f32 from root 3 (path 0)");
}

}  // namespace
}  // namespace slipring::collectives
