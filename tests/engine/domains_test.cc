#include "engine/topology/domains.h"

#include <gtest/gtest.h>

#include "base/cpuset.h"

namespace slipring::engine {
namespace {

std::vector<Domains> declared(std::initializer_list<int> sizes, int ranks) {
  const std::vector<int> list(sizes);
  std::vector<Domains> by_rank;
  for (int r = 0; r < ranks; ++r) by_rank.push_back(declared_domains(list, r));
  return by_rank;
}

TEST(Domains, declared_sizes_are_read_and_checked) {
  EXPECT_EQ(parse_domain_sizes("4,8").value(), (std::vector<int>{4, 8}));
  EXPECT_EQ(parse_domain_sizes("3").value(), (std::vector<int>{3}));
  for (const char* bad : {"", "0", "-2", "4,", ",4", "4,6", "8,4", "x", "4;8", "99999999999"})
    EXPECT_EQ(parse_domain_sizes(bad).status().code(), StatusCode::invalid_argument) << bad;
}

TEST(Domains, even_ones_give_every_rank_a_rail) {
  const auto by_rank = declared({2}, 6);
  for (int r = 0; r < 6; ++r) {
    const auto split = split_by_domains(r, by_rank);
    ASSERT_TRUE(split);
    EXPECT_TRUE(split->even);
    EXPECT_EQ(split->domain_count, 3);
    EXPECT_EQ(split->inside, (std::vector<int>{r / 2 * 2, r / 2 * 2 + 1}));
    EXPECT_EQ(split->across, (std::vector<int>{r % 2, r % 2 + 2, r % 2 + 4}));
    EXPECT_EQ(split->domain_of, (std::vector<int>{0, 0, 1, 1, 2, 2}));
    EXPECT_EQ(split->index_of, (std::vector<int>{0, 1, 0, 1, 0, 1}));
  }
}

TEST(Domains, uneven_ones_have_leaders_only) {
  const auto by_rank = declared({2}, 5);
  EXPECT_EQ(split_by_domains(0, by_rank)->across, (std::vector<int>{0, 2, 4}));
  EXPECT_TRUE(split_by_domains(1, by_rank)->across.empty());
  EXPECT_FALSE(split_by_domains(4, by_rank)->even);
}

TEST(Domains, the_innermost_level_that_divides_counts) {
  // By twos within fours: first the pairs; between them, whose ranks differ in the first level, the fours.
  const auto by_rank = declared({2, 4}, 8);
  EXPECT_EQ(split_by_domains(5, by_rank)->inside, (std::vector<int>{4, 5}));
  std::vector<Domains> rail;
  const auto first = split_by_domains(5, by_rank);
  for (const int r : first->across) rail.push_back(by_rank[static_cast<std::size_t>(r)]);
  const auto next = split_by_domains(2, rail);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->domain_count, 2);
  EXPECT_EQ(next->inside, (std::vector<int>{2, 3}));
}

TEST(Domains, that_divide_nothing_are_none) {
  EXPECT_FALSE(split_by_domains(0, declared({1}, 4)));   // each rank alone
  EXPECT_FALSE(split_by_domains(0, declared({8}, 4)));   // all together
  EXPECT_FALSE(split_by_domains(0, std::vector<Domains>(4)));
  EXPECT_FALSE(split_by_domains(0, {}));
  EXPECT_FALSE(split_by_domains(0, std::vector<Domains>{{0}, {0}, {-1}, {1}}));  // one is not known
}

TEST(Domains, are_found_on_this_machine) {
  const auto cpus = base::usable_cpus().cpus;
  for (const int number : found_domains(cpus)) EXPECT_GE(number, -1);
  const int one[] = {cpus.front()};
  EXPECT_GE(found_domains(one)[2], 0);  // one CPU always lies in some package
  EXPECT_EQ(found_domains({}).size(), 3u);
}

}  // namespace
}  // namespace slipring::engine
