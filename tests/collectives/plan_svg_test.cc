#include "collectives/plan_svg.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "collectives/algorithms/algorithm.h"

namespace slipring::collectives {
namespace {

std::size_t times(const std::string& text, std::string_view word) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

std::size_t sends_of(const Plan& plan) {
  std::size_t sends = 0;
  for (int r = 0; r < plan.ranks(); ++r)
    sends += static_cast<std::size_t>(std::count_if(plan.steps(r, 0).begin(), plan.steps(r, 0).end(), [](const Step& s) { return s.kind == StepKind::send; }));
  return sends;
}

int rounds_of(const char* name, Operation operation, int ranks) {
  int last = 0;
  for (const auto& rank : plan_rounds(find_algorithm(operation, name)->build({.ranks = ranks}), 0))
    for (const int round : rank) last = std::max(last, round);
  return last + 1;
}

TEST(PlanRounds, are_what_the_algorithms_promise) {
  EXPECT_EQ(rounds_of("ring", Operation::all_reduce, 8), 14);
  EXPECT_EQ(rounds_of("recursive_doubling", Operation::all_reduce, 8), 3);
  EXPECT_EQ(rounds_of("ring", Operation::all_gather, 8), 7);
  EXPECT_EQ(rounds_of("binomial_tree", Operation::broadcast, 8), 3);
  EXPECT_EQ(rounds_of("binomial_tree", Operation::reduce, 8), 3);
  EXPECT_EQ(rounds_of("linear", Operation::gather, 8), 1);
  EXPECT_EQ(rounds_of("linear", Operation::scatter, 8), 7);
  EXPECT_EQ(rounds_of("pairwise", Operation::all_to_all, 8), 7);
}

TEST(PlanSvg, has_an_arrow_for_every_message_and_closes_what_it_opens) {
  for (const Algorithm& a : algorithms())
    for (const int ranks : {1, 2, 5, 8}) {
      const Plan plan = a.build({.ranks = ranks});
      const std::string svg = draw_plan_svg(plan);
      EXPECT_EQ(times(svg, "<line "), sends_of(plan)) << a.name;
      EXPECT_EQ(times(svg, "class=\"rank\""), static_cast<std::size_t>(ranks));
      EXPECT_EQ(times(svg, "<text"), times(svg, "</text>"));
      EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    }
}

TEST(PlanSvg, sets_messages_between_nodes_apart) {
  const std::vector<int> nodes = {0, 0, 1, 1};
  const Plan plan = find_algorithm(Operation::all_reduce, "ring")->build({.ranks = 4, .node_of_rank = nodes});
  EXPECT_EQ(times(draw_plan_svg(plan, nodes), "message crossing"), 12u);  // 2 of 4 links, 6 messages each
}

}  // namespace
}  // namespace slipring::collectives
