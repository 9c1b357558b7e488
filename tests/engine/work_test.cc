// Asynchronous operations: the same results as blocking ones, in the promised order, without deadlock, with every end.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "slipring/communicator.h"

namespace slipring::tests {
namespace {

using namespace std::chrono_literals;

Status status_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return Status(e.code(), e.what());
  }
  return {};
}

std::vector<int> numbers(std::size_t count, int first) {
  std::vector<int> v(count);
  std::iota(v.begin(), v.end(), first);
  return v;
}

class WorkOf : public ::testing::TestWithParam<const char*> {
 protected:
  void run(int size, const std::function<void(Communicator&)>& body, std::map<std::string, std::string> config = {}) {
    config["progress"] = GetParam();
    run_threads(size, body, {.config = std::move(config)});
  }
  std::atomic<int> wrong{0};
};
INSTANTIATE_TEST_SUITE_P(Progress, WorkOf, ::testing::Values("caller", "thread"), [](const auto& p) { return std::string(p.param); });

TEST(Work, of_nothing_has_finished) {
  Work work;
  EXPECT_TRUE(work.test());
  work.wait();
  EXPECT_TRUE(work.wait_for(0ns));
  work.cancel();
}

TEST_P(WorkOf, every_collective_gives_what_the_blocking_call_gives) {
  for (int size = 1; size <= 4; ++size)
    run(size, [&](Communicator& comm) {
      const auto n = static_cast<std::size_t>(comm.size());
      const std::size_t shape[2] = {3, 4 * n};
      std::vector<std::size_t> counts(n), one(n, 1);
      std::iota(counts.begin(), counts.end(), std::size_t{0});
      const std::size_t total = n * (n - 1) / 2, mine = counts[static_cast<std::size_t>(comm.rank())];
      for (const std::size_t count : {1u, 100u, 20'000u, 100'000u}) {
        const auto in = numbers(count * n + total + 12 * n, comm.rank() * 1000);
        const auto check = [&](auto&& blocking, auto&& starting) {
          std::vector<int> expected(in.size() + 12 * n * n, -1), got(expected);
          blocking(expected.data());
          Work work = starting(got.data());
          work.wait();
          wrong += got != expected || !work.test();
        };
        const int* x = in.data();
        const int root = comm.size() - 1;
        check([&](int* y) { comm.all_reduce(x, y, count, DType::i32, ReduceOp::sum); },
              [&](int* y) { return comm.iall_reduce(x, y, count, DType::i32, ReduceOp::sum); });
        check([&](int* y) { comm.reduce(x, y, count, DType::i32, ReduceOp::max, root); },
              [&](int* y) { return comm.ireduce(x, y, count, DType::i32, ReduceOp::max, root); });
        check([&](int* y) { y[0] = comm.rank(); comm.broadcast(y, count, DType::i32, root); },
              [&](int* y) { y[0] = comm.rank(); return comm.ibroadcast(y, count, DType::i32, root); });
        check([&](int*) { comm.barrier(); }, [&](int*) { return comm.ibarrier(); });
        check([&](int* y) { comm.all_gather(x, y, count, DType::i32); }, [&](int* y) { return comm.iall_gather(x, y, count, DType::i32); });
        check([&](int* y) { comm.all_gather(x, y, shape, -1, DType::i32); }, [&](int* y) { return comm.iall_gather(x, y, shape, -1, DType::i32); });
        check([&](int* y) { comm.all_gatherv(x, y, counts, DType::i32); }, [&](int* y) { return comm.iall_gatherv(x, y, counts, DType::i32); });
        check([&](int* y) { comm.reduce_scatter(x, y, count, DType::i32, ReduceOp::sum); },
              [&](int* y) { return comm.ireduce_scatter(x, y, count, DType::i32, ReduceOp::sum); });
        check([&](int* y) { comm.reduce_scatter(x, y, shape, 1, DType::i32, ReduceOp::sum); },
              [&](int* y) { return comm.ireduce_scatter(x, y, shape, 1, DType::i32, ReduceOp::sum); });
        check([&](int* y) { comm.reduce_scatterv(x, y, counts, DType::i32, ReduceOp::sum); },
              [&](int* y) { return comm.ireduce_scatterv(x, y, counts, DType::i32, ReduceOp::sum); });
        check([&](int* y) { comm.gather(x, y, count, DType::i32, root); }, [&](int* y) { return comm.igather(x, y, count, DType::i32, root); });
        check([&](int* y) { comm.gather(x, y, shape, 0, DType::i32, root, GatherMode::spmd); },
              [&](int* y) { return comm.igather(x, y, shape, 0, DType::i32, root, GatherMode::spmd); });
        check([&](int* y) { comm.gatherv(x, mine, y, counts, DType::i32, root); },
              [&](int* y) { return comm.igatherv(x, mine, y, counts, DType::i32, root); });
        check([&](int* y) { comm.scatter(x, y, count, DType::i32, root); }, [&](int* y) { return comm.iscatter(x, y, count, DType::i32, root); });
        check([&](int* y) { comm.scatterv(x, counts, y, mine, DType::i32, root); },
              [&](int* y) { return comm.iscatterv(x, counts, y, mine, DType::i32, root); });
        check([&](int* y) { comm.all_to_all(x, y, count, DType::i32); }, [&](int* y) { return comm.iall_to_all(x, y, count, DType::i32); });
        check([&](int* y) { comm.all_to_allv(x, one, y, one, DType::i32); },
              [&](int* y) { return comm.iall_to_allv(x, one, y, one, DType::i32); });
      }
    });
  EXPECT_EQ(wrong, 0);
}

TEST_P(WorkOf, many_in_flight_run_in_order_with_blocking_ones_among_them) {
  run(3, [&](Communicator& comm) {
    for (const int depth : {1, 2, 7, 32}) {
      std::vector<std::vector<int>> buffers;
      std::vector<Work> works;
      for (int i = 0; i < depth; ++i) buffers.push_back(numbers(static_cast<std::size_t>(1 + i * 997), i + comm.rank()));
      for (int i = 0; i < depth; ++i) {
        auto& b = buffers[static_cast<std::size_t>(i)];
        works.push_back(comm.iall_reduce(b.data(), b.data(), b.size(), DType::i32, ReduceOp::sum));
        if (i % 5 == 4) {
          int x = 1;
          comm.all_reduce(&x, &x, 1, DType::i32, ReduceOp::sum);  // after all before it
          wrong += x != 3 || !works.back().test();
        }
      }
      for (std::size_t i = works.size(); i-- > 0;) works[i].wait();  // in any order
      for (int i = 0; i < depth; ++i)
        for (std::size_t k = 0; k < buffers[static_cast<std::size_t>(i)].size(); ++k)
          wrong += buffers[static_cast<std::size_t>(i)][k] != 3 * (i + static_cast<int>(k)) + 3;
    }
  });
  EXPECT_EQ(wrong, 0);
}

// Each pattern deadlocks where operations block, or where one queue holds all of them.
TEST_P(WorkOf, messages_go_on_beside_each_other) {
  run(2, [&](Communicator& comm) {
    const int peer = 1 - comm.rank();
    for (const std::size_t bytes : {0u, 8u, 100'000u, 1u << 20, 8u << 20}) {
      std::vector<char> out(bytes, static_cast<char>(comm.rank() + 1)), in(bytes, 9);
      const auto check = [&] {
        for (const char c : in) wrong += c != static_cast<char>(peer + 1);
        std::fill(in.begin(), in.end(), 9);
      };
      {  // both receive first
        Work receiving = comm.irecv(in.data(), bytes, peer);
        Work sending = comm.isend(out.data(), bytes, peer);
        receiving.wait();
        sending.wait();
        check();
      }
      {  // both send first, more than a ring holds
        Work sending = comm.isend(out.data(), bytes, peer);
        comm.recv(in.data(), bytes, peer);
        sending.wait();
        check();
      }
      {  // a collective in between, which the receiver reaches last
        Work sending = comm.isend(out.data(), bytes, peer);
        if (comm.rank() == 0) comm.barrier();
        comm.recv(in.data(), bytes, peer);
        if (comm.rank() == 1) comm.barrier();
        sending.wait();
        check();
      }
      {  // many, in order
        std::vector<Work> works;
        std::vector<std::uint64_t> sent(20), got(20, 99);
        std::iota(sent.begin(), sent.end(), 0);
        for (std::uint64_t& g : got) works.push_back(comm.irecv(&g, sizeof g, peer));
        for (const std::uint64_t& s : sent) works.push_back(comm.isend(&s, sizeof s, peer));
        for (Work& w : works) w.wait();
        wrong += got != sent;
      }
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(WorkOf, a_deadline_that_passes_leaves_the_operation_in_flight) {
  run(2, [&](Communicator& comm) {
    int x = 1;
    if (comm.rank() == 1) std::this_thread::sleep_for(100ms);
    Work work = comm.iall_reduce(&x, &x, 1, DType::i32, ReduceOp::sum);
    if (comm.rank() == 0) {
      wrong += work.wait_for(5ms);
      wrong += work.wait_for(0ns);
      wrong += work.test();
    }
    work.wait();
    wrong += x != 2;
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(WorkOf, dropped_ones_are_finished_by_later_calls_and_by_close) {
  run(2, [&](Communicator& comm) {
    const int peer = 1 - comm.rank();
    std::vector<int> x(5000, 1), y(5000, 1), got(300'000, -1);
    const auto sent = numbers(300'000, comm.rank());
    comm.iall_reduce(x.data(), x.data(), x.size(), DType::i32, ReduceOp::sum);
    comm.iall_reduce(y.data(), y.data(), y.size(), DType::i32, ReduceOp::sum);
    comm.barrier();
    wrong += x[4999] != 2 || y[0] != 2;
    comm.irecv(got.data(), got.size() * sizeof(int), peer);
    comm.isend(sent.data(), sent.size() * sizeof(int), peer);
    comm.close();
    wrong += got != numbers(300'000, peer);
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(WorkOf, a_message_of_which_nothing_has_moved_can_be_taken_back) {
  run(2, [&](Communicator& comm) {
    int x = -1, y = -1;
    if (comm.rank() == 0) {
      Work first = comm.irecv(&x, sizeof x, 1), second = comm.irecv(&y, sizeof y, 1);
      second.cancel();  // has not begun
      wrong += status_of([&] { second.wait(); }).code() != StatusCode::aborted;
      std::this_thread::sleep_for(20ms);
      first.test();
      first.cancel();  // has begun, but nothing came
      wrong += status_of([&] { first.wait(); }).code() != StatusCode::aborted;
      first.cancel();  // no effect
    }
    comm.barrier();
    if (comm.rank() == 1) {
      x = 5;
      comm.send(&x, sizeof x, 0);
    } else {
      comm.recv(&x, sizeof x, 1);
      wrong += x != 5;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(WorkOf, a_cancelled_collective_aborts_the_communicator) {
  std::atomic<int> aborted{0};
  EXPECT_THROW(run(2, [&](Communicator& comm) {
    int x = 1;
    Work work;
    if (comm.rank() == 0) {
      work = comm.iall_reduce(&x, &x, 1, DType::i32, ReduceOp::sum);
      work.cancel();
      aborted += status_of([&] { work.wait(); }).code() == StatusCode::aborted;
    } else {
      std::this_thread::sleep_for(50ms);
      aborted += status_of([&] { comm.barrier(); }).code() == StatusCode::aborted;
    }
    comm.barrier();
  }), Error);
  EXPECT_EQ(aborted, 2);
}

TEST_P(WorkOf, a_missing_rank_is_named_by_the_one_that_waits) {
  std::string text;
  try {
    run(2, [&](Communicator& comm) {
      int x = 1;
      if (comm.rank() == 1) {
        std::this_thread::sleep_for(600ms);
        return;
      }
      Work work = comm.iall_reduce(&x, &x, 1, DType::i32, ReduceOp::sum);
      std::this_thread::sleep_for(10ms);
      text = status_of([&] { work.wait(); }).message();
    }, {{"op.timeout_ms", "200"}});
  } catch (const Error&) {
  }
  EXPECT_NE(text.find("rank 0 waited for rank 1 in operation"), std::string::npos) << text;
}

// Not the time since the start counts, but that in which nothing came while somebody waited.
TEST(WorkByCaller, may_lie_about_longer_than_the_timeout) {
  std::atomic<int> wrong{0};
  run_threads(2, [&](Communicator& comm) {
    int x = 1;
    Work work = comm.iall_reduce(&x, &x, 1, DType::i32, ReduceOp::sum);
    std::this_thread::sleep_for(400ms);
    work.wait();
    wrong += x != 2;
  }, {.config = {{"op.timeout_ms", "200"}}});
  EXPECT_EQ(wrong, 0);
}

TEST_P(WorkOf, bad_arguments_are_refused_and_nothing_else_suffers) {
  run(2, [&](Communicator& comm) {
    int x = 1;
    const auto refused = [&](const std::function<Work()>& call) {
      wrong += status_of([&] { call().wait(); }).code() != StatusCode::invalid_argument;
    };
    refused([&] { return comm.iall_reduce(nullptr, &x, 1, DType::i32, ReduceOp::sum); });
    refused([&] { return comm.ibroadcast(&x, 1, DType::i32, 2); });
    refused([&] { return comm.isend(&x, 4, comm.rank()); });
    refused([&] { return comm.irecv(nullptr, 4, 1 - comm.rank()); });
    refused([&] { return comm.iall_gatherv(&x, &x, std::vector<std::size_t>{1}, DType::i32); });
    comm.all_reduce(&x, &x, 1, DType::i32, ReduceOp::sum);
    wrong += x != 2;
  });
  EXPECT_EQ(wrong, 0);
}

TEST(WorkByThread, goes_on_while_the_caller_computes) {
  std::atomic<int> wrong{0};
  std::atomic<bool> received{false};
  run_threads(2, [&](Communicator& comm) {
    std::vector<char> big(16 << 20, 'x');
    if (comm.rank() == 0) {
      Work work = comm.isend(big.data(), big.size(), 1);
      for (int i = 0; i < 2000 && !received; ++i) std::this_thread::sleep_for(5ms);  // never calls in
      wrong += !received;
      work.wait();
    } else {
      comm.recv(big.data(), big.size(), 0);
      received = true;
    }
  }, {.config = {{"progress", "thread"}}});
  EXPECT_EQ(wrong, 0);
}

TEST(WorkByThread, costs_nothing_when_nothing_is_in_flight) {
  const auto cpu_us = [] {
    rusage r{};
    ::getrusage(RUSAGE_SELF, &r);
    return (r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1'000'000 + r.ru_utime.tv_usec + r.ru_stime.tv_usec;
  };
  std::atomic<long> used{0};
  run_threads(2, [&](Communicator& comm) {
    int x = 1;
    comm.iall_reduce(&x, &x, 1, DType::i32, ReduceOp::sum).wait();
    comm.barrier();
    std::this_thread::sleep_for(50ms);
    const long before = cpu_us();
    std::this_thread::sleep_for(500ms);
    if (comm.rank() == 0) used = cpu_us() - before;
    comm.barrier();
  }, {.config = {{"progress", "thread"}}});
  EXPECT_LT(used, 10'000);  // of both threads and whatever else runs here
}

TEST(WorkByLevels, sleeps_and_wakes_though_another_doorbell_rings) {
  std::atomic<int> wrong{0};
  run_threads(4, [&](Communicator& comm) {
    for (int i = 0; i < 20; ++i) {
      int x = 1;
      if (comm.rank() == i % 4) std::this_thread::sleep_for(3ms);
      Work work = comm.iall_reduce(&x, &x, 1, DType::i32, ReduceOp::sum);
      work.wait();
      wrong += x != 4;
    }
  }, {.config = {{"topology.domains", "2"}}});
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace slipring::tests
