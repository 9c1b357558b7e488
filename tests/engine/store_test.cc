// What every store must do, on each of them: the contract of engine/store/store.h and of gather_all.
#include "engine/store/store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "engine/store/gather_all.h"
#include "store_places.h"

namespace slipring::engine {
namespace {

class StoreTest : public testing::TestWithParam<std::string> {
 protected:
  std::shared_ptr<Store> open() { return place_->open(); }

  // Runs `body(rank, store)` on one thread per rank, each with its own handle.
  template <class Body>
  void on_threads(int count, Body body) {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < count; ++rank) {
      threads.emplace_back([this, rank, body] {
        const std::shared_ptr<Store> store = open();
        ASSERT_NE(store, nullptr);
        body(rank, *store);
      });
    }
  }

 private:
  std::unique_ptr<StorePlace> place_ = make_place(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Stores, StoreTest, testing::Values("memory", "file", "tcp"),
                         [](const auto& place) { return place.param; });

std::string value_of(const Result<std::string>& result) {
  return result ? result.value() : "FAILED " + result.status().to_string();
}

TEST_P(StoreTest, WhatOneRankSetsAnotherSees) {
  const auto writer = open();
  const auto reader = open();
  ASSERT_TRUE(writer->set("key", "value"));
  EXPECT_EQ(value_of(reader->get("key", patience())), "value");
  ASSERT_TRUE(writer->set("key", "another"));
  EXPECT_EQ(value_of(reader->get("key", patience())), "another");
}

TEST_P(StoreTest, GetWaitsForTheRankThatSets) {
  const auto reader = open();
  std::atomic<bool> is_set{false};
  std::jthread writer([&, store = open()] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    is_set = true;
    ASSERT_TRUE(store->set("late", "value"));
  });
  EXPECT_EQ(value_of(reader->get("late", patience())), "value");
  EXPECT_TRUE(is_set);
}

TEST_P(StoreTest, GetGivesUpAtItsDeadlineAndNamesTheKey) {
  const auto store = open();
  const Result<std::string> value = store->get("never set", base::Deadline::after_ms(30));
  ASSERT_FALSE(value);
  EXPECT_EQ(value.status().code(), StatusCode::timeout);
  EXPECT_NE(value.status().message().find("never set"), std::string::npos);
}

TEST_P(StoreTest, GetWithADeadlineThatHasPassedStillAsksOnce) {
  const auto store = open();
  ASSERT_TRUE(store->set("key", "value"));
  EXPECT_EQ(value_of(store->get("key", base::Deadline::after_ms(0))), "value");
}

TEST_P(StoreTest, ACallAfterAGivenUpGetGetsItsOwnAnswer) {
  const auto store = open();
  const auto other = open();
  for (int i = 0; i < 20; ++i) {
    const std::string key = "late" + std::to_string(i);
    EXPECT_FALSE(store->get(key, base::Deadline::after_ms(1)));
    ASSERT_TRUE(other->set(key, "the late answer"));
    ASSERT_TRUE(other->set("asked", std::to_string(i)));
    EXPECT_EQ(value_of(store->get("asked", patience())), std::to_string(i));
  }
}

TEST_P(StoreTest, TryGetNeverWaits) {
  const auto store = open();
  Result<std::optional<std::string>> absent = store->try_get("key");
  ASSERT_TRUE(absent);
  EXPECT_FALSE(absent->has_value());
  ASSERT_TRUE(store->set("key", ""));
  Result<std::optional<std::string>> present = store->try_get("key");
  ASSERT_TRUE(present);
  EXPECT_EQ(*present, std::optional<std::string>(""));
}

TEST_P(StoreTest, OfManyWhoClaimExactlyOneSucceeds) {
  constexpr int kClaimants = 8;
  for (int round = 0; round < 5; ++round) {
    std::mutex mutex;
    std::set<std::string> outcomes;
    std::atomic<int> winners{0};
    on_threads(kClaimants, [&](int rank, Store& store) {
      const std::string mine = "rank " + std::to_string(rank);
      const Result<std::string> present = store.claim("claimed" + std::to_string(round), mine);
      ASSERT_TRUE(present) << present.status().to_string();
      if (present.value() == mine) ++winners;
      const std::lock_guard lock(mutex);
      outcomes.insert(present.value());
    });
    EXPECT_EQ(winners, 1);
    EXPECT_EQ(outcomes.size(), 1u);
  }
}

TEST_P(StoreTest, AClaimWakesWhoWaitsForTheKey) {
  std::jthread claimant([store = open()] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ASSERT_TRUE(store->claim("key", "claimed"));
  });
  EXPECT_EQ(value_of(open()->get("key", patience())), "claimed");
}

TEST_P(StoreTest, ConcurrentAddsLoseNothing) {
  constexpr int kThreads = 4;
  constexpr int kAdds = 50;
  std::mutex mutex;
  std::set<std::int64_t> sums;
  on_threads(kThreads, [&](int, Store& store) {
    for (int i = 0; i < kAdds; ++i) {
      const Result<std::int64_t> sum = store.add("counter", 1);
      ASSERT_TRUE(sum) << sum.status().to_string();
      const std::lock_guard lock(mutex);
      sums.insert(sum.value());
    }
  });
  // Every sum is seen once, so no two adds met.
  EXPECT_EQ(sums.size(), std::size_t{kThreads * kAdds});
  EXPECT_EQ(*sums.rbegin(), kThreads * kAdds);
}

TEST_P(StoreTest, ACounterRefusesWhatItCannotHold) {
  const auto store = open();
  ASSERT_TRUE(store->set("text", "seven"));
  EXPECT_EQ(store->add("text", 1).status().code(), StatusCode::invalid_argument);
  ASSERT_TRUE(store->add("big", std::numeric_limits<std::int64_t>::max()));
  EXPECT_EQ(store->add("big", 1).status().code(), StatusCode::invalid_argument);
  EXPECT_EQ(value_of(store->get("big", patience())),
            std::to_string(std::numeric_limits<std::int64_t>::max()));
  Result<std::int64_t> down = store->add("down", -5);
  ASSERT_TRUE(down);
  EXPECT_EQ(*down, -5);
}

TEST_P(StoreTest, RemovedIsAbsentAndCanBeSetAgain) {
  const auto store = open();
  ASSERT_TRUE(store->set("key", "value"));
  ASSERT_TRUE(store->remove("key"));
  ASSERT_TRUE(store->remove("key"));
  EXPECT_FALSE(store->try_get("key").value().has_value());
  EXPECT_EQ(value_of(store->claim("key", "second")), "second");
}

TEST_P(StoreTest, AnyBytesMakeAKeyAndAValue) {
  const auto writer = open();
  const auto reader = open();
  std::string all_bytes;
  for (int byte = 0; byte < 256; ++byte) all_bytes.push_back(static_cast<char>(byte));
  const std::vector<std::string> keys{"../../escape",
                                      "a/b",
                                      "a_b",
                                      ".",
                                      "..",
                                      " ",
                                      all_bytes.substr(0, 255),
                                      all_bytes.substr(1),
                                      std::string(255, 'x'),
                                      std::string(254, 'x') + "y"};
  for (const std::string& key : keys) ASSERT_TRUE(writer->set(key, key + all_bytes));
  for (const std::string& key : keys) EXPECT_EQ(value_of(reader->get(key, patience())), key + all_bytes);
}

TEST_P(StoreTest, TheLargestValueFitsAndOneByteMoreIsRefused) {
  const auto writer = open();
  const auto reader = open();
  const std::string largest(kMaxStoreValueBytes, 'v');
  ASSERT_TRUE(writer->set("largest", largest));
  EXPECT_TRUE(value_of(reader->get("largest", patience())) == largest);
  EXPECT_EQ(writer->set("larger", largest + "v").code(), StatusCode::invalid_argument);
  EXPECT_EQ(writer->claim("larger", largest + "v").status().code(), StatusCode::invalid_argument);
  EXPECT_FALSE(reader->try_get("larger").value().has_value());
}

TEST_P(StoreTest, KeysOutsideTheBoundsAreRefusedByEveryCall) {
  const auto store = open();
  for (const std::string& key : {std::string(), std::string(256, 'k')}) {
    EXPECT_EQ(store->set(key, "").code(), StatusCode::invalid_argument);
    EXPECT_EQ(store->get(key, patience()).status().code(), StatusCode::invalid_argument);
    EXPECT_EQ(store->try_get(key).status().code(), StatusCode::invalid_argument);
    EXPECT_EQ(store->claim(key, "").status().code(), StatusCode::invalid_argument);
    EXPECT_EQ(store->add(key, 1).status().code(), StatusCode::invalid_argument);
    EXPECT_EQ(store->remove(key).code(), StatusCode::invalid_argument);
  }
  ASSERT_TRUE(store->set("key", "the store still works"));
}

TEST_P(StoreTest, ThreadsThatShareAHandleTakeTurns) {
  const auto store = open();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&store, i] {
      const std::string key = "key" + std::to_string(i);
      for (int round = 0; round < 25; ++round) {
        ASSERT_TRUE(store->set(key, std::to_string(round)));
        ASSERT_EQ(value_of(store->get(key, patience())), std::to_string(round));
      }
    });
  }
}

TEST_P(StoreTest, GatherAllGivesEveryRankEverybodysValueInOrder) {
  constexpr int kRanks = 7;
  on_threads(kRanks, [](int rank, Store& store) {
    const auto values =
        gather_all(store, "names", rank, kRanks, "value of " + std::to_string(rank), patience());
    ASSERT_TRUE(values) << values.status().to_string();
    ASSERT_EQ(values.value().size(), std::size_t{kRanks});
    for (int peer = 0; peer < kRanks; ++peer) {
      EXPECT_EQ(values.value()[peer], "value of " + std::to_string(peer));
    }
  });
}

TEST_P(StoreTest, GatheringsWithDifferentPrefixesDoNotMix) {
  constexpr int kRanks = 3;
  on_threads(kRanks, [](int rank, Store& store) {
    for (int i = 0; i < 5; ++i) {
      const std::string value = std::to_string(i * 10 + rank);
      Result<std::vector<std::string>> values =
          gather_all(store, "round" + std::to_string(i), rank, kRanks, value, patience());
      ASSERT_TRUE(values) << values.status().to_string();
      EXPECT_EQ(values->back(), std::to_string(i * 10 + kRanks - 1));
    }
  });
}

TEST_P(StoreTest, TheErrorOfAGatheringNamesWhoIsMissingAndWhoCame) {
  constexpr int kRanks = 6;
  on_threads(kRanks, [](int rank, Store& store) {
    if (rank == 2 || rank == 5) return;
    // Those who come stay longer than the one whose error is looked at, so that it sees them all.
    const auto deadline = base::Deadline::after_ms(rank == 0 ? 2000 : 2500);
    const auto values = gather_all(store, "start", rank, kRanks, "here", deadline);
    ASSERT_FALSE(values);
    EXPECT_EQ(values.status().code(), StatusCode::timeout);
    EXPECT_NE(values.status().message().find("ranks 2, 5 missing after "), std::string::npos)
        << values.status().message();
    EXPECT_NE(values.status().message().find("ranks 0, 1, 3, 4 came"), std::string::npos)
        << values.status().message();
  });
}

TEST_P(StoreTest, WhileAGatheringWaitsItSaysForWhom) {
  const auto store = open();
  std::vector<std::string> sentences;
  GatherOptions options;
  options.report = [&sentences](std::string_view sentence) { sentences.emplace_back(sentence); };
  options.report_every = std::chrono::milliseconds(20);
  EXPECT_FALSE(gather_all(*store, "start", 1, 3, "here", base::Deadline::after_ms(300), options));
  ASSERT_GE(sentences.size(), 2u);
  EXPECT_NE(sentences.front().find("rank 1 waits for ranks 0, 2"), std::string::npos) << sentences.front();
}

TEST_P(StoreTest, TwoProcessesThatClaimOneRankAreToldSo) {
  const auto first = open();
  const auto second = open();
  EXPECT_FALSE(gather_all(*first, "start", 0, 2, "same value", base::Deadline::after_ms(0)));
  const auto refused = gather_all(*second, "start", 0, 2, "same value", patience());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.status().code(), StatusCode::mismatch);
  EXPECT_NE(refused.status().message().find("rank 0 is claimed twice"), std::string::npos);
  EXPECT_NE(refused.status().message().find("pid " + std::to_string(getpid())), std::string::npos);
}

TEST_P(StoreTest, RanksThatWereToldDifferentSizesAreToldSo) {
  on_threads(2, [](int rank, Store& store) {
    const auto values =
        gather_all(store, "start", rank, rank == 0 ? 2 : 3, "", base::Deadline::after_ms(3000));
    ASSERT_FALSE(values);
    EXPECT_EQ(values.status().code(), StatusCode::mismatch) << values.status().message();
    EXPECT_NE(values.status().message().find("with size 2"), std::string::npos) << values.status().message();
    EXPECT_NE(values.status().message().find("with size 3"), std::string::npos) << values.status().message();
  });
}

TEST_P(StoreTest, ARankOutsideItsJobIsRefused) {
  const auto store = open();
  for (const auto& [rank, size] : {std::pair{-1, 2}, {2, 2}, {7, 2}, {0, 0}, {0, -3}}) {
    const auto values = gather_all(*store, "start", rank, size, "", patience());
    ASSERT_FALSE(values);
    EXPECT_EQ(values.status().code(), StatusCode::invalid_argument);
  }
}

TEST_P(StoreTest, ARecordThatIsNoneIsCorruptNotACrash) {
  const auto store = open();
  for (std::size_t bytes : {0, 1, 24, 25}) {
    const std::string prefix = "start" + std::to_string(bytes);
    ASSERT_TRUE(store->set(prefix + "/rank/1", std::string(bytes, '\xff')));
    const auto values = gather_all(*store, prefix, 0, 2, "", patience());
    ASSERT_FALSE(values);
    EXPECT_EQ(values.status().code(), StatusCode::corrupt) << values.status().message();
  }
}

TEST(FormatRanks, ShortensRunsOfThreeAndMore) {
  EXPECT_EQ(format_ranks({}), "");
  EXPECT_EQ(format_ranks(std::vector{5}), "5");
  EXPECT_EQ(format_ranks(std::vector{2, 5}), "2, 5");
  EXPECT_EQ(format_ranks(std::vector{0, 1}), "0, 1");
  EXPECT_EQ(format_ranks(std::vector{0, 1, 2, 3, 7, 8, 10}), "0-3, 7, 8, 10");
}

}  // namespace
}  // namespace slipring::engine
