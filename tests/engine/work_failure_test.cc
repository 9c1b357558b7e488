// Asynchronous operations that cannot go on: lost peers, forked children, misuse, wrong arguments, cancellation, patience.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "engine/store/tcp_store_server.h"
#include "slipring/communicator.h"
#include "tests/base/role_process.h"

namespace slipring::engine {
namespace {

using namespace std::chrono_literals;
using tests::Role;
using tests::RoleArguments;
using tests::RoleProcess;
using tests::say;

constexpr const char* kToken = "a token for tests";

Status status_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    return Status(e.code(), e.what());
  }
  return {};
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Arguments of every role: rank, store, progress.
Communicator join_two(const RoleArguments& a) {
  return Communicator::join({.rank = std::stoi(a[0]), .size = 2, .store = a[1], .job_token = kToken, .config = {{"progress", a[2]}}});
}

/// Fourth argument: how rank 0 waits for rank 1, which does nothing until it is killed.
const Role waits_in_vain("waits_in_vain", [](const RoleArguments& a) {
  Communicator comm = join_two(a);
  comm.barrier();
  say("ready");
  if (comm.rank() == 1) tests::hear();
  int x = 1, y = 0;
  Work sum = comm.iall_reduce(&x, &x, 1, DType::i32, ReduceOp::sum);
  Work message = comm.irecv(&y, sizeof y, 1);
  say(status_of([&] {
        const auto end = std::chrono::steady_clock::now() + 20s;
        if (a[3] == "wait") sum.wait();
        while (a[3] == "test" && std::chrono::steady_clock::now() < end && !message.test()) std::this_thread::sleep_for(1ms);
        while (a[3] == "wait_for" && std::chrono::steady_clock::now() < end && !sum.wait_for(5ms)) {
        }
      }).to_string());
  return 0;
});

/// A child must neither advance its parent's operations nor wait for them.
const Role forks_in_flight("forks_in_flight", [](const RoleArguments& a) {
  Communicator comm = join_two(a);
  int x = 1, y = 0;
  Work sum = comm.rank() == 0 ? comm.iall_reduce(&x, &x, 1, DType::i32, ReduceOp::sum) : Work();
  if (comm.rank() == 0) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);  // also a hanging child ends
      const auto refused = [](const std::function<void()>& call) { return status_of(call).code() == StatusCode::invalid_argument; };
      const bool all = refused([&] { (void)sum.test(); }) && refused([&] { sum.wait(); }) && refused([&] { (void)sum.wait_for(1ms); }) &&
                       refused([&] { sum.cancel(); }) && refused([&] { comm.barrier(); }) && refused([&] { comm.ibarrier().wait(); }) &&
                       refused([&] { comm.irecv(&y, sizeof y, 1).wait(); });
      comm = Communicator();  // as its destructor would
      ::_exit(all ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    say(status == 0 ? "refused" : "not refused");
  } else {
    say("refused");
    std::this_thread::sleep_for(300ms);
    sum = comm.iall_reduce(&x, &x, 1, DType::i32, ReduceOp::sum);
  }
  sum.wait();
  say(std::to_string(x));
  return 0;
});

class Job {
 public:
  Job(const std::string& role, const std::string& progress, const std::string& how = "")
      : server_(TcpStoreServer::start({.job_token = kToken}).value()), zero_(role, {"0", server_->url(), progress, how}),
        one_(role, {"1", server_->url(), progress, how}) {}
  RoleProcess& operator[](int rank) { return rank == 0 ? zero_ : one_; }

 private:
  std::unique_ptr<TcpStoreServer> server_;
  RoleProcess zero_, one_;
};

class WorkFailure : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Progress, WorkFailure, ::testing::Values("caller", "thread"), [](const auto& p) { return std::string(p.param); });

TEST_P(WorkFailure, a_killed_peer_is_named_however_the_survivor_waits) {
  for (const char* how : {"wait", "test", "wait_for"}) {
    Job job("waits_in_vain", GetParam(), how);
    for (int r = 0; r < 2; ++r) ASSERT_EQ(job[r].read_line(), "ready");
    job[1].send_signal(SIGKILL);
    const std::string text = job[0].read_line();
    EXPECT_TRUE(contains(text, "peer_lost") && contains(text, "rank 1 (pid ")) << how << ": " << text;
    EXPECT_EQ(job[0].wait(), 0);
  }
}

TEST_P(WorkFailure, a_forked_child_is_refused_and_the_parent_goes_on) {
  Job job("forks_in_flight", GetParam());
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(job[r].read_line(), "refused");
    EXPECT_EQ(job[r].read_line(), "2");
  }
}

TEST_P(WorkFailure, bad_arguments_are_refused_by_the_call_also_behind_others) {
  std::atomic<int> wrong{0}, through{0};
  run_threads(2, [&](Communicator& comm) {
    int x = 1, y[8] = {};
    const int peer = 1 - comm.rank();
    const std::vector<std::size_t> one(1, 1), two(2, 1);
    const std::size_t shape[1] = {3};
    Work first = comm.rank() == 0 ? comm.iall_reduce(&x, &x, 1, DType::i32, ReduceOp::sum) : Work();
    int number = 0;
    const auto refused = [&](const std::function<void()>& call, StatusCode code = StatusCode::invalid_argument) {
      ++number;
      if (status_of(call).code() == code) return;
      ++wrong;
      ADD_FAILURE() << "call number " << number << " was not refused";
    };
    refused([&] { (void)comm.iall_reduce(nullptr, &x, 1, DType::i32, ReduceOp::sum); });
    refused([&] { (void)comm.iall_reduce(&x, &x, 1, DType::boolean, ReduceOp::sum); }, StatusCode::unsupported);
    refused([&] { (void)comm.ireduce(&x, y, 1, DType::i32, ReduceOp::sum, 2); });
    refused([&] { (void)comm.ibroadcast(&x, 1, DType::i32, -1); });
    refused([&] { (void)comm.ibroadcast(nullptr, 1, DType::i32, 0); });
    refused([&] { (void)comm.iall_gather(&x, nullptr, 1, DType::i32); });
    refused([&] { (void)comm.iall_gather(y, y, shape, 1, DType::i32); });
    refused([&] { (void)comm.iall_gatherv(&x, y, one, DType::i32); });
    refused([&] { (void)comm.ireduce_scatter(nullptr, y, 1, DType::i32, ReduceOp::sum); });
    refused([&] { (void)comm.ireduce_scatter(y, &x, shape, 0, DType::i32, ReduceOp::sum); });
    refused([&] { (void)comm.ireduce_scatterv(y, &x, one, DType::i32, ReduceOp::sum); });
    refused([&] { (void)comm.igather(&x, y, 1, DType::i32, 7); });
    refused([&] { (void)comm.igatherv(nullptr, 1, y, two, DType::i32, peer); });
    refused([&] { (void)comm.iscatter(y, nullptr, 1, DType::i32, 0); });
    refused([&] { (void)comm.iscatterv(y, two, nullptr, 1, DType::i32, peer); });
    refused([&] { (void)comm.iall_to_all(y, y + 1, 2, DType::i32); });
    refused([&] { (void)comm.iall_to_allv(y, one, y + 4, two, DType::i32); });
    refused([&] { (void)comm.isend(&x, 4, comm.rank()); });
    refused([&] { (void)comm.irecv(nullptr, 4, peer); });
    ++through;
    while (through < 2) std::this_thread::sleep_for(1ms);  // first is in flight until here
    if (comm.rank() == 1) first = comm.iall_reduce(&x, &x, 1, DType::i32, ReduceOp::sum);
    first.wait();
    wrong += x != 2;
  }, {.config = {{"progress", GetParam()}}});
  EXPECT_EQ(wrong, 0);
}

TEST_P(WorkFailure, a_message_cancelled_in_the_middle_aborts_the_communicator) {
  std::atomic<int> aborted{0};
  std::atomic<bool> cancelled{false};
  EXPECT_THROW(run_threads(2, [&](Communicator& comm) {
    std::vector<char> big(32 << 20);
    if (comm.rank() == 0) {
      Work sending = comm.isend(big.data(), big.size(), 1);  // more than the ring holds: its beginning has gone
      std::this_thread::sleep_for(50ms);
      sending.cancel();
      cancelled = true;
      aborted += status_of([&] { sending.wait(); }).code() == StatusCode::aborted;
    } else {
      while (!cancelled) std::this_thread::sleep_for(1ms);
      aborted += status_of([&] { comm.recv(big.data(), big.size(), 0); }).code() == StatusCode::aborted;
    }
    comm.barrier();
  }, {.config = {{"progress", GetParam()}}}), Error);
  EXPECT_EQ(aborted, 2);
}

TEST_P(WorkFailure, close_ends_also_what_nobody_answers_and_nothing_begins_after_it) {
  std::atomic<int> wrong{0};
  run_threads(2, [&](Communicator& comm) {
    int x = 0;
    if (comm.rank() == 0) {
      (void)comm.irecv(&x, sizeof x, 1);
      comm.close();
      for (int i = 0; i < 2; ++i) wrong += status_of([&] { comm.ibarrier().wait(); }).code() != StatusCode::closed;
    } else {
      std::this_thread::sleep_for(500ms);
    }
  }, {.config = {{"progress", GetParam()}, {"op.timeout_ms", "200"}}});
  EXPECT_EQ(wrong, 0);
}

// The time counts in which somebody waits, not that in which an operation lies about; whoever progresses it.
TEST_P(WorkFailure, patience_ends_only_with_somebody_who_waits) {
  std::atomic<int> wrong{0};
  run_threads(2, [&](Communicator& comm) {
    int x = 0, y = 5;
    if (comm.rank() == 0) {
      Work receiving = comm.irecv(&x, sizeof x, 1);
      std::this_thread::sleep_for(2000ms);
      receiving.wait();
      wrong += x != 5;
    } else {
      std::this_thread::sleep_for(2100ms);
      comm.send(&y, sizeof y, 0);
    }
  }, {.config = {{"progress", GetParam()}, {"op.timeout_ms", "1500"}}});
  EXPECT_EQ(wrong, 0);
}

// The first collective by levels forms groups, which must not count the caller's computing either.
TEST(WorkByLevels, forms_its_groups_with_the_same_patience) {
  std::atomic<int> wrong{0};
  run_threads(4, [&](Communicator& comm) {
    int x = 1;
    if (comm.rank() == 3) std::this_thread::sleep_for(2100ms);
    Work work = comm.iall_reduce(&x, &x, 1, DType::i32, ReduceOp::sum);
    if (comm.rank() != 3) std::this_thread::sleep_for(2000ms);
    work.wait();
    wrong += x != 4;
  }, {.config = {{"topology.domains", "2"}, {"op.timeout_ms", "1500"}}});
  EXPECT_EQ(wrong, 0);
}

TEST(WorkByCaller, a_call_that_only_starts_something_lets_the_others_advance) {
  std::atomic<bool> received{false};
  std::atomic<int> started{-1}, wrong{0};
  run_threads(2, [&](Communicator& comm) {
    std::vector<char> big(16 << 20, 'x');
    std::vector<int> got(3000);
    if (comm.rank() == 0) {
      Work sending = comm.isend(big.data(), big.size(), 1);
      int n = 0;
      for (; n < 3000 && !received; ++n) {
        (void)comm.irecv(&got[static_cast<std::size_t>(n)], sizeof(int), 1);
        std::this_thread::sleep_for(1ms);
      }
      wrong += !received;
      started = n;
      sending.wait();
      comm.barrier();
    } else {
      comm.recv(big.data(), big.size(), 0);
      received = true;
      while (started < 0) std::this_thread::sleep_for(1ms);
      for (int i = 0; i < started; ++i) comm.send(&i, sizeof i, 0);
      comm.barrier();
    }
  });
  EXPECT_EQ(wrong, 0);
}

#if !defined(NDEBUG) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
TEST(WorkMisuse, a_second_thread_inside_is_refused_in_builds_with_assertions) {
  std::atomic<int> refused{0};
  std::atomic<bool> over{false};
  run_threads(2, [&](Communicator& comm) {
    int x = 1, y = 0;
    if (comm.rank() == 0) {
      Work receiving = comm.irecv(&y, sizeof y, 1);
      std::thread second([&] {
        std::this_thread::sleep_for(100ms);
        for (const auto& call : std::vector<std::function<void()>>{[&] { comm.barrier(); }, [&] { (void)receiving.test(); },
                                                                   [&] { receiving.wait(); }, [&] { receiving.cancel(); }}) {
          const Status s = status_of(call);
          refused += s.code() == StatusCode::invalid_argument && contains(s.message(), "threads ");
        }
        over = true;
      });
      comm.all_reduce(&x, &x, 1, DType::i32, ReduceOp::sum);
      second.join();
      receiving.wait();
    } else {
      while (!over) std::this_thread::sleep_for(1ms);
      comm.all_reduce(&x, &x, 1, DType::i32, ReduceOp::sum);
      comm.send(&x, sizeof x, 0);
    }
  });
  EXPECT_EQ(refused, 4);
}
#endif

}  // namespace
}  // namespace slipring::engine
