#include "tools/perf/placement.h"

#include <gmock/gmock.h>

#include <thread>

namespace slipring::tools::perf {
namespace {

using testing::ElementsAre;

TEST(PinRequest, IsOffOnOrAList) {
  EXPECT_EQ(parse_pin_request("0")->kind, PinRequest::Kind::off);
  EXPECT_EQ(parse_pin_request("1")->kind, PinRequest::Kind::one_per_core);
  EXPECT_THAT(parse_pin_request("0,0")->cpus, ElementsAre(0, 0));
  EXPECT_THAT(parse_pin_request("5,1-3")->cpus, ElementsAre(5, 1, 2, 3));
}

TEST(PinRequest, WhatIsNoListIsRefused) {
  for (const char* text : {"", "a", "1,", ",1", "3-1", "1-", "-1", "1;2", "99999", "1 2"}) {
    EXPECT_FALSE(parse_pin_request(text).has_value()) << text;
  }
}

/// Runs on a thread of its own, so that the test program stays where it was.
template <class F>
void apart(F&& f) {
  std::thread(std::forward<F>(f)).join();
}

TEST(Placement, AListIsTakenInTurn) {
  const int cpu = usable_cpus().front();
  apart([&] {
    const PinRequest request{PinRequest::Kind::list, {cpu, cpu}};
    ASSERT_TRUE(limit_to_listed_cpus(request));
    ASSERT_TRUE(pin_rank(request, 5, 8));
    EXPECT_THAT(usable_cpus(), ElementsAre(cpu));
    EXPECT_EQ(affinity_text(), "CPU " + std::to_string(cpu));
  });
}

TEST(Placement, RanksGetCoresOfTheirOwnWhenThereAreEnough) {
  const std::vector<int> cpus = usable_cpus();
  const int ranks = static_cast<int>(cpus.size());
  for (int rank = 0; rank < ranks; ++rank) {
    apart([&] {
      ASSERT_TRUE(pin_rank({}, rank, ranks));
      EXPECT_THAT(usable_cpus(), ElementsAre(cpus[static_cast<std::size_t>(rank)]));
    });
  }
}

TEST(Placement, RanksStayFreeWhenTheyOutnumberTheCpus) {
  const std::vector<int> cpus = usable_cpus();
  apart([&] {
    ASSERT_TRUE(pin_rank({}, 0, static_cast<int>(cpus.size()) + 1));
    EXPECT_EQ(usable_cpus(), cpus);
  });
}

TEST(Placement, ACpuThatIsNotThereIsNamed) {
  apart([] {
    const Status status = pin_rank({PinRequest::Kind::list, {CPU_SETSIZE - 1}}, 0, 1);
    EXPECT_FALSE(status.is_ok());
    EXPECT_THAT(status.message(), testing::HasSubstr("CPUs 1023"));
  });
}

}  // namespace
}  // namespace slipring::tools::perf
