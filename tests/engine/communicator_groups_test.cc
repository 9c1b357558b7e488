// Communicators of some of the ranks: who is in them, that they do not touch each other, and what they leave behind.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <numeric>
#include <random>
#include <thread>

#include "slipring/communicator.h"

namespace slipring::tests {
namespace {


std::int64_t sum_of(Communicator& comm, std::int64_t mine) {
  comm.all_reduce(&mine, &mine, 1, DType::i64, ReduceOp::sum);
  return mine;
}

std::vector<std::int64_t> gathered(Communicator& comm, std::int64_t mine) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(comm.size()), -1);
  comm.all_gather(&mine, all.data(), 1, DType::i64);
  return all;
}

Status status_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return Status(e.code(), e.what());
  }
  return {};
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

TEST(Split, orders_by_key_then_rank_for_every_size) {
  std::atomic<int> wrong{0};
  for (int size = 1; size <= 8; ++size)
    run_threads(size, [&](Communicator& comm) {
      const int rank = comm.rank();
      for (int colors = 1; colors <= size; ++colors) {
        Communicator backwards = comm.split(rank % colors, -rank);
        Communicator forwards = comm.split(rank % colors, 7);
        std::vector<std::int64_t> expected;
        for (int r = rank % colors; r < size; r += colors) expected.push_back(r);
        wrong += gathered(forwards, rank) != expected;
        std::reverse(expected.begin(), expected.end());
        wrong += gathered(backwards, rank) != expected;
        wrong += backwards.size() != static_cast<int>(expected.size());
        wrong += expected[static_cast<std::size_t>(backwards.rank())] != rank;
      }
      wrong += sum_of(comm, rank) != size * (size - 1) / 2;
    });
  EXPECT_EQ(wrong, 0);
}

TEST(Split, negative_color_takes_no_part) {
  std::atomic<int> wrong{0};
  run_threads(4, [&](Communicator& comm) {
    Communicator some = comm.split(comm.rank() == 2 ? -1 : 0, 0);
    wrong += static_cast<bool>(some) != (comm.rank() != 2);
    if (some) wrong += sum_of(some, comm.rank()) != 4;
    wrong += status_of([&] { Communicator().barrier(); }).code() != StatusCode::invalid_argument;
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Groups, keep_the_order_of_the_list_and_need_their_members_only) {
  std::atomic<int> wrong{0};
  run_threads(5, [&](Communicator& comm) {
    const std::vector<int> list{4, 1, 3};
    if (comm.rank() == 0) return;  // does not even call
    Communicator group = comm.create_group(list);
    const auto at = std::find(list.begin(), list.end(), comm.rank());
    wrong += static_cast<bool>(group) != (at != list.end());
    if (!group) return;
    wrong += group.rank() != at - list.begin();
    wrong += gathered(group, comm.rank()) != std::vector<std::int64_t>{4, 1, 3};
    Communicator pair = group.split(group.rank() == 1 ? 1 : 0);  // a group of a group
    wrong += sum_of(pair, comm.rank()) != (comm.rank() == 1 ? 1 : 7);
    const int next = (group.rank() + 1) % 3, previous = (group.rank() + 2) % 3;
    int sent = comm.rank(), got = -1;
    group.send(&sent, sizeof sent, next);
    group.recv(&got, sizeof got, previous);
    wrong += got != list[static_cast<std::size_t>(previous)];
  });
  EXPECT_EQ(wrong, 0);
}

// Every operation, small and large, on two groups in turn: nothing of one shows in the other.
TEST(Groups, of_overlapping_ranks_in_turn_and_hundreds_at_once) {
  std::atomic<int> wrong{0};
  run_threads(4, [&](Communicator& comm) {
    std::mt19937 random(4711);  // the same on every rank
    struct Made {
      std::vector<int> ranks;
      Communicator comm;
      bool large;
    };
    std::vector<Made> groups;
    for (int i = 0; i < 300; ++i) {
      std::vector<int> ranks{0, 1, 2, 3};
      std::shuffle(ranks.begin(), ranks.end(), random);
      ranks.resize(1 + random() % 4);
      Communicator made = comm.create_group(ranks);
      if (made) groups.push_back({ranks, std::move(made), i < 20});
    }
    std::vector<float> x;
    for (int round = 0; round < 3; ++round)
      for (Made& g : groups) {
        std::vector<std::int64_t> expected(g.ranks.begin(), g.ranks.end());
        wrong += gathered(g.comm, comm.rank()) != expected;
        wrong += sum_of(g.comm, comm.rank()) != std::accumulate(g.ranks.begin(), g.ranks.end(), 0);
        x.assign(round == 2 && g.large ? 100'003u : 257u, static_cast<float>(comm.rank()));
        g.comm.all_reduce(std::span(x), ReduceOp::max);
        wrong += !std::all_of(x.begin(), x.end(), [&](float v) { return v == static_cast<float>(*std::max_element(g.ranks.begin(), g.ranks.end())); });
      }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Groups, run_at_the_same_time_on_several_threads_of_each_rank) {
  constexpr int kRanks = 3, kThreads = 4;
  std::atomic<int> wrong{0};
  run_threads(kRanks, [&](Communicator& comm) {
    std::vector<Communicator> groups;
    for (int t = 0; t < kThreads; ++t) groups.push_back(comm.split(0, 0));
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        Communicator& mine = groups[static_cast<std::size_t>(t)];
        std::vector<std::int64_t> x;
        for (int i = 0; i < 200; ++i) {
          x.assign(static_cast<std::size_t>(1 + (i * 37 + t * 1009) % 4000), mine.rank() + t);
          mine.all_reduce(std::span(x), ReduceOp::sum);
          wrong += !std::all_of(x.begin(), x.end(), [&](std::int64_t v) { return v == kRanks * (kRanks - 1) / 2 + kRanks * t; });
          const auto all = gathered(mine, 100 * t + mine.rank());
          for (int r = 0; r < kRanks; ++r) wrong += all[static_cast<std::size_t>(r)] != 100 * t + r;
          if (i % 50 == 0) {  // groups are made while others run
            Communicator again = mine.split(0, -mine.rank());
            wrong += again.rank() != kRanks - 1 - mine.rank();
            mine.barrier();
          }
        }
      });
    for (std::thread& t : threads) t.join();
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Groups, outlive_the_communicator_they_were_made_of) {
  std::atomic<int> wrong{0};
  run_threads(3, [&](Communicator& comm) {
    Communicator child = comm.split(0, 0);
    comm.close();
    for (int i = 0; i < 10; ++i) wrong += sum_of(child, 1) != 3;
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Groups, use_buffers_of_the_heap_in_place) {
  std::atomic<int> wrong{0};
  run_threads(3, [&](Communicator& comm) {
    Communicator pair = comm.split(comm.rank() == 1 ? -1 : 0, -comm.rank());
    if (!pair) return;
    constexpr std::size_t kCount = 300'001;
    auto* x = static_cast<float*>(pair.heap_allocate(kCount * sizeof(float)));
    std::fill(x, x + kCount, static_cast<float>(comm.rank()));
    pair.all_reduce(x, x, kCount, DType::f32, ReduceOp::sum);
    wrong += !std::all_of(x, x + kCount, [](float v) { return v == 2.0f; });
    pair.barrier();
    pair.heap_free(x);
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Groups, five_thousand_made_and_dropped_with_256_descriptors_leave_nothing) {
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  struct rlimit few = before;
  few.rlim_cur = 256;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::atomic<int> wrong{0};
  std::size_t descriptors[2] = {}, resident[2] = {};
  run_threads(2, [&](Communicator& comm) {
    for (int i = 0; i < 5000; ++i) {
      if (i == 100 || i == 4999) {
        comm.barrier();
        if (comm.rank() == 0) {
          descriptors[i > 100] = open_descriptors();
          resident[i > 100] = resident_bytes();
        }
      }
      Communicator group = i % 2 ? comm.split(0, i % 3 ? comm.rank() : -comm.rank()) : comm.create_group(std::vector<int>{1, 0});
      wrong += sum_of(group, i) != 2 * i;
      if (i % 5 == 0 && comm.rank() == 0) group.close();
    }
  });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(descriptors[1], descriptors[0]);
  EXPECT_LT(resident[1], resident[0] + (8u << 20));
}

TEST(Groups, refuse_bad_lists_and_stay_usable) {
  std::atomic<int> wrong{0};
  run_threads(3, [&](Communicator& comm) {
    const auto refused = [&](std::vector<int> list, const char* word) {
      const Status s = status_of([&] { comm.create_group(list); });
      if (s.code() != StatusCode::invalid_argument || s.message().find(word) == std::string::npos) ++wrong;
    };
    refused({}, "empty");
    refused({0, 3}, "rank 3");
    refused({0, -1}, "rank -1");
    refused({0, 1, 0}, "twice");
    wrong += sum_of(comm, 1) != 3;
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Groups, without_room_fail_on_every_member_and_leave_the_parent_usable) {
  std::atomic<int> wrong{0};
  const auto run = [&](const char* bytes, StatusCode code, const char* word) {
    run_threads(3, [&](Communicator& comm) {
      for (int i = 0; i < 2; ++i) {
        const auto make = [&] { return i == 0 ? comm.split(0, 0) : comm.create_group(std::vector<int>{0, 1, 2}); };
        const Status s = status_of([&] { make(); });
        if (s.code() != code || s.message().find(word) == std::string::npos) ++wrong, std::fprintf(stderr, "%s\n", s.to_string().c_str());
      }
      wrong += sum_of(comm, 1) != 3;
    }, {.config = {{"group.max_bytes", bytes}}});
  };
  run("0", StatusCode::unavailable, "group.max_bytes is 0");
  run("100000", StatusCode::out_of_memory, "raise group.max_bytes");
  EXPECT_EQ(wrong, 0);
}

TEST(Groups, different_lists_are_a_mismatch_that_shows_a_list) {
  std::string text[2];
  EXPECT_THROW(run_threads(3, [&](Communicator& comm) {
    if (comm.rank() == 2) return;
    try {
      comm.create_group(comm.rank() == 0 ? std::vector<int>{0, 1} : std::vector<int>{1, 0});
    } catch (const Error& e) {
      text[comm.rank()] = e.what();
      throw;
    }
  }), Error);
  EXPECT_NE((text[0] + text[1]).find("forms the group of ranks"), std::string::npos) << text[0] << text[1];
}

TEST(Groups, a_missing_member_is_named) {
  std::string text;
  try {
    run_threads(3, [&](Communicator& comm) {
      if (comm.rank() == 1) {
        try {
          comm.create_group(std::vector<int>{0, 1});
        } catch (const Error& e) {
          text = e.what();
        }
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(700));
    }, {.config = {{"op.timeout_ms", "200"}}});
  } catch (const Error&) {
  }
  EXPECT_NE(text.find("rank 1 waited for rank 0 to call create_group"), std::string::npos) << text;
}

// A failure stays in its group, which its text names; an abort of the parent ends the groups made of it.
TEST(Groups, are_poisoned_one_by_one_and_aborted_together) {
  std::atomic<int> wrong{0};
  run_threads(3, [&](Communicator& comm) {
    Communicator bad = comm.split(0, 0), good = comm.split(0, 0);
    const Status s = status_of([&] {
      std::int64_t x[8] = {};
      bad.all_reduce(x, x, comm.rank() == 1 ? 8 : 4, DType::i64, ReduceOp::sum);
    });
    if (s.code() != StatusCode::mismatch || s.message().find("group of job ranks 0, 1, 2") == std::string::npos)
      ++wrong, std::fprintf(stderr, "%s\n", s.to_string().c_str());
    wrong += sum_of(good, 1) != 3;
    wrong += sum_of(comm, 1) != 3;
    if (comm.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      comm.abort("enough");
    }
    if (comm.rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(200));  // missing in what the others wait for
    const Status aborted = status_of([&] { good.barrier(); });
    if (aborted.code() != StatusCode::aborted || aborted.message().find("enough") == std::string::npos)
      ++wrong, std::fprintf(stderr, "%s\n", aborted.to_string().c_str());
  });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace slipring::tests
