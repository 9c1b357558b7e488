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
  EXPECT_EQ(Selector(config, 4, 1024).choose(Operation::broadcast, 8).algorithm, "direct");
  config.broadcast_algorithm = "tree";
  EXPECT_EQ(Selector(config, 4, 1024).choose(Operation::broadcast, 8).algorithm, "binomial_tree");
}

std::shared_ptr<const TuningTable> table(std::string_view text) {
  auto parsed = TuningTable::parse(text, "rules.toml");
  EXPECT_TRUE(parsed) << parsed.status().to_string();
  return parsed ? *parsed : nullptr;
}

TEST(TuningFile, the_first_rule_that_fits_wins_and_is_named) {
  const auto rules = table(R"(
[[rule]]
operation = "all_reduce"
ranks = [2, 4]
bytes = [0, 1000]
algorithm = "recursive_doubling"

[[rule]]
operation = "all_reduce"
algorithm = "ring"

[[rule]]
operation = "all_gather"
ranks = 3
algorithm = "bruck"
)");
  const Selector three({}, 3, 4096, 1, rules), eight({}, 8, 4096, 1, rules);
  EXPECT_EQ(three.all_reduce(1000).algorithm, "recursive_doubling");
  EXPECT_EQ(three.all_reduce(1001).algorithm, "ring");
  EXPECT_EQ(eight.all_reduce(8).algorithm, "ring");
  EXPECT_EQ(three.choose(Operation::all_gather, 5).algorithm, "bruck");
  EXPECT_EQ(eight.choose(Operation::all_gather, 5).algorithm, "direct");
  EXPECT_EQ(three.choose(Operation::broadcast, 5).algorithm, "direct");
  EXPECT_EQ(three.why(Operation::all_reduce, 10), "line 2 of the tuning file rules.toml asks for recursive_doubling");
  EXPECT_EQ(Selector(with_algorithm("two_phase"), 3, 4096, 1, rules).all_reduce(8).algorithm, "two_phase");  // the key comes first
}

TEST(TuningFile, what_a_group_cannot_have_is_told) {
  const auto rules = table("[[rule]]\noperation = \"reduce\"\nalgorithm = \"levels\"\n");
  EXPECT_EQ(Selector({}, 4, 1024, 1, rules).choose(Operation::reduce, 8).path, Path::two_phase);
  EXPECT_NE(Selector({}, 4, 1024, 1, rules).why(Operation::reduce, 8).find("one domain"), std::string::npos);
  EXPECT_EQ(Selector({}, 4, 1024, 2, rules).choose(Operation::reduce, 8).path, Path::levels);
}

TEST(TuningFile, mistakes_are_shown_with_their_line) {
  const auto refused = [](std::string_view text, const char* line, const char* word) {
    const auto parsed = TuningTable::parse(text, "rules.toml");
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.status().code(), StatusCode::invalid_argument);
    EXPECT_NE(parsed.status().message().find(line), std::string::npos) << parsed.status().message();
    EXPECT_NE(parsed.status().message().find(word), std::string::npos) << parsed.status().message();
  };
  refused("[[rule]]\noperation = \"all_reduce\"\nalgorithm = \"magic\"\n", "line 1", "it has one_shot, two_phase, levels, ring");
  refused("[[rule]]\noperation = \"fly\"\nalgorithm = \"ring\"\n", "line 2", "\"fly\" is not a collective");
  refused("[[rule]]\nalgorithm = \"ring\"\n", "line 1", "needs an operation");
  refused("[[rule]]\noperation = \"reduce\"\nalgorithm = \"ring\"\nranks = [4, 2]\n", "line 4", "pair [from, to]");
  refused("[[rule]]\noperation = \"reduce\"\nalgorithm = \"ring\"\nbytes = -1\n", "line 4", "bytes is a number");
  refused("[[rule]]\noperation = \"reduce\"\nalgorithm = \"ring\"\nnodes = 2\n", "line 4", "no \"nodes\" in a rule");
  refused("rule = 1\n", "line 1", "[[rule]] only");
  refused("[[rule]\n", "line 1", "rules.toml");
  EXPECT_EQ(TuningTable::load("/no/such/file").status().code(), StatusCode::system_error);
}

}  // namespace
}  // namespace slipring::collectives
