#include "collectives/selector.h"

#include <gtest/gtest.h>

namespace slipring::collectives {
namespace {

base::ConfigValues with_algorithm(const char* name) {
  base::ConfigValues config;
  config.all_reduce_algorithm = name;
  return config;
}

TEST(Selector, takes_one_shot_up_to_what_the_boxes_hold) {
  const Selector selector(base::ConfigValues{}, 2, 1024);
  EXPECT_EQ(selector.all_reduce(0).path, Path::one_shot);
  EXPECT_EQ(selector.all_reduce(1024).path, Path::one_shot);
  EXPECT_EQ(selector.all_reduce(1025).path, Path::two_phase);
  EXPECT_NE(selector.why(Operation::all_reduce, 1025).find("exceed 1024"), std::string::npos);
}

TEST(Selector, obeys_the_configuration_and_says_so) {
  for (const char* name : {"ring", "recursive_doubling"}) {
    const Selector selector(with_algorithm(name), 4, 1024);
    EXPECT_EQ(selector.all_reduce(8).path, Path::plan);
    EXPECT_EQ(selector.all_reduce(8).algorithm, name);
    EXPECT_NE(selector.why(Operation::all_reduce, 8).find(name), std::string::npos);
  }
  EXPECT_EQ(Selector(with_algorithm("two_phase"), 4, 1024).all_reduce(8).path, Path::two_phase);
}

TEST(Selector, tells_when_it_cannot_obey) {
  const Selector selector(with_algorithm("one_shot"), 4, 1024);
  EXPECT_EQ(selector.all_reduce(1024).path, Path::one_shot);
  EXPECT_EQ(selector.all_reduce(2048).path, Path::two_phase);
  EXPECT_NE(selector.why(Operation::all_reduce, 2048).find("asks for one_shot, but 2048 bytes exceed 1024"), std::string::npos);
}

TEST(Selector, broadcast) {
  base::ConfigValues config;
  EXPECT_EQ(Selector(config, 4, 1024).broadcast().algorithm, "direct");
  config.broadcast_algorithm = "tree";
  EXPECT_EQ(Selector(config, 4, 1024).broadcast().algorithm, "binomial_tree");
}

}  // namespace
}  // namespace slipring::collectives
