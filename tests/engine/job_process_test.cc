// Jobs of real processes: what the survivors of a death see, what is left behind, and what start-up says when
// something is missing. Each rank is this program started anew; the test hosts the store.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <random>
#include <thread>

#include "base/syscalls.h"
#include "engine/store/tcp_store_server.h"
#include "slipring/communicator.h"
#include "tests/base/role_process.h"

namespace slipring::engine {
namespace {

using tests::Role;
using tests::RoleArguments;
using tests::RoleProcess;
using tests::say;

constexpr const char* kToken = "a token for tests";

// Arguments of every role: rank, size, store, then key=value settings.
Communicator join(const RoleArguments& a) {
  JobOptions options{.rank = std::stoi(a[0]), .size = std::stoi(a[1]), .store = a[2], .job_token = kToken};
  for (std::size_t i = 3; i < a.size(); ++i)
    options.config[a[i].substr(0, a[i].find('='))] = a[i].substr(a[i].find('=') + 1);
  return Communicator::join(options);
}

// Runs `body`; says "done" or the error.
int report(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    std::string text = e.what();
    for (char& c : text)
      if (c == '\n') c = ' ';
    say("error " + text);
    return 0;
  }
  say("done");
  return 0;
}

// All kinds of operations, for ever.
const Role worker("worker", [](const RoleArguments& a) {
  return report([&] {
    Communicator comm = join(a);
    say("ready");
    std::vector<float> x(300000, 1.0f);
    for (;;) {
      comm.all_reduce(x.data(), x.data(), 7, DType::f32, ReduceOp::max);
      comm.all_reduce(x.data(), x.data(), 3000, DType::f32, ReduceOp::max);
      comm.all_reduce(x.data(), x.data(), x.size(), DType::f32, ReduceOp::max);
      comm.broadcast(x.data(), x.size(), DType::f32, 1);
      comm.barrier();
    }
  });
});

const Role once("once", [](const RoleArguments& a) {
  return report([&] {
    Communicator comm = join(a);
    std::vector<double> x(100000, comm.rank());
    comm.all_reduce(std::span(x), ReduceOp::sum);
    for (double v : x)
      if (v != comm.size() * (comm.size() - 1) / 2) throw Error(Status(StatusCode::corrupt, "wrong sum"));
    const std::int64_t token = comm.rank();
    std::int64_t got = -1;
    const int next = (comm.rank() + 1) % comm.size(), previous = (comm.rank() + comm.size() - 1) % comm.size();
    if (comm.size() > 1) {
      comm.send(&token, sizeof token, next);
      comm.recv(&got, sizeof got, previous);
      if (got != previous) throw Error(Status(StatusCode::corrupt, "wrong message"));
    }
    comm.barrier();
  });
});

// Rank 0 waits in a barrier until the test lets rank 1 enter; says the CPU time that the wait took.
const Role waiting("waiting", [](const RoleArguments& a) {
  return report([&] {
    Communicator comm = join(a);
    say("ready");
    if (comm.rank() == 1) tests::hear();
    rusage before{}, after{};
    getrusage(RUSAGE_SELF, &before);
    comm.barrier();
    getrusage(RUSAGE_SELF, &after);
    const auto us = [](const timeval& t) { return t.tv_sec * 1000000 + t.tv_usec; };
    say(std::to_string(us(after.ru_utime) + us(after.ru_stime) - us(before.ru_utime) - us(before.ru_stime)));
  });
});

const Role leaves_without_a_word("leaves_without_a_word", [](const RoleArguments& a) {
  Communicator comm = join(a);
  comm.barrier();
  say("ready");
  ::_exit(0);
  return 0;
});

const Role without_membarrier("without_membarrier", [](const RoleArguments& a) {
  base::Syscalls table = base::kKernelSyscalls;
  table.membarrier = [](int, unsigned, int) { errno = EPERM; return -1; };
  const base::ScopedSyscalls denied(table);
  return report([&] {
    Communicator comm = join(a);
    for (int i = 0; i < 200; ++i) {
      if (comm.rank() == i % comm.size()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      comm.barrier();
    }
  });
});

// A child that goes on after fork and destroys what it inherited must not speak in its parent's name.
const Role forks("forks", [](const RoleArguments& a) {
  return report([&] {
    pid_t child = -1;
    Communicator comm = join(a);
    {
      Communicator inherited = std::move(comm);
      inherited.barrier();
      child = ::fork();
      if (child == 0) {
        int refused = 0;
        try {
          inherited.barrier();
        } catch (const Error& e) {
          refused = e.code() == StatusCode::invalid_argument;
        }
        inherited = Communicator();  // as its destructor would
        ::_exit(refused ? 0 : 1);
      }
      comm = std::move(inherited);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    if (status != 0) throw Error(Status(StatusCode::corrupt, "the child was not refused"));
    double x = 1;
    comm.all_reduce(std::span(&x, 1), ReduceOp::sum);
    if (x != comm.size()) throw Error(Status(StatusCode::corrupt, "wrong sum"));
  });
});

const Role in_small_shm("in_small_shm", [](const RoleArguments& a) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1m") != 0) {
    say("cannot");
    return 0;
  }
  return report([&] {
    Communicator comm = join(a);
    std::vector<float> x(1000000, 1.0f);
    comm.all_reduce(std::span(x), ReduceOp::sum);
  });
});

std::size_t files_in_shm() {
  std::size_t files = 0;
  DIR* const folder = ::opendir("/dev/shm");
  while (const dirent* entry = ::readdir(folder)) files += std::strncmp(entry->d_name, "slipring-", 9) == 0;
  ::closedir(folder);
  return files;
}

class Job {
 public:
  Job(int size, const std::string& role, const RoleArguments& settings = {}, int started = -1)
      : server_(TcpStoreServer::start({.job_token = kToken}).value()) {
    for (int r = 0; r < (started < 0 ? size : started); ++r) {
      RoleArguments a{std::to_string(r), std::to_string(size), server_->url()};
      a.insert(a.end(), settings.begin(), settings.end());
      ranks_.push_back(std::make_unique<RoleProcess>(role, a));
    }
  }
  RoleProcess& operator[](int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(ranks_.size()); }
  const std::string& store() const { return server_->url(); }
  void expect_ready() {
    for (auto& r : ranks_) ASSERT_EQ(r->read_line(), "ready");
  }
  void add(const std::string& role, const RoleArguments& arguments) {
    ranks_.push_back(std::make_unique<RoleProcess>(role, arguments));
  }

 private:
  std::unique_ptr<TcpStoreServer> server_;
  std::vector<std::unique_ptr<RoleProcess>> ranks_;
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Death : public testing::TestWithParam<std::string> {};

// Operations of a worker's round: 1 and 2 one-shot, 3 two-phase (5 chunks), 4 broadcast (5 chunks), 5 barrier.
TEST_P(Death, of_a_rank_in_mid_operation_reaches_every_survivor_and_leaves_nothing) {
  for (const char* algorithm : {"auto", "ring"}) {
    Job job(3, "worker", {"test.fault=" + GetParam(), std::string("all_reduce.algorithm=") + algorithm});
    job.expect_ready();
    for (const int survivor : {0, 2}) {
      const std::string text = job[survivor].read_line();
      EXPECT_TRUE(contains(text, "peer_lost: rank 1 (pid ")) << algorithm << ", rank " << survivor << ": " << text;
      EXPECT_EQ(job[survivor].wait(), 0);
    }
    EXPECT_EQ(files_in_shm(), 0u);
  }
}
INSTANTIATE_TEST_SUITE_P(points, Death,
                         testing::Values("kill rank 1 op 1", "kill rank 1 op 2", "kill rank 1 op 3", "kill rank 1 op 3 chunk 2",
                                         "kill rank 1 op 4 chunk 1", "kill rank 1 op 5", "kill rank 1 op 1003 chunk 1", "exit rank 1 op 8"));

TEST(Killed, at_random_moments_also_rank_0_and_the_next_job_starts) {
  const unsigned seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 6; ++round) {
    Job job(3, "worker");
    job.expect_ready();
    const int victim = round % 3;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30000));
    job[victim].send_signal(SIGKILL);
    for (int r = 0; r < 3; ++r) {
      if (r == victim) continue;
      const std::string text = job[r].read_line();
      EXPECT_TRUE(contains(text, "peer_lost: rank " + std::to_string(victim) + " (pid")) << text;
    }
    EXPECT_EQ(files_in_shm(), 0u);
  }
}

TEST(Stopped, rank_runs_into_the_timeout_which_names_it) {
  Job job(2, "worker", {"op.timeout_ms=400"});
  job.expect_ready();
  job[1].send_signal(SIGSTOP);
  const std::string text = job[0].read_line();
  EXPECT_TRUE(contains(text, "timeout: ")) << text;
  EXPECT_TRUE(contains(text, "rank 0 waited for rank 1 in operation ")) << text;
}

TEST(Gone, a_rank_that_exits_without_closing_is_lost) {
  Job job(2, "worker", {}, 1);
  job.add("leaves_without_a_word", {"1", "2", job.store()});
  ASSERT_EQ(job[0].read_line(), "ready");
  const std::string text = job[0].read_line();
  // Rank 1 called a barrier where rank 0 called all_reduce, and left: either finding is true.
  EXPECT_TRUE(contains(text, "peer_lost") || contains(text, "mismatch")) << text;
}

TEST(Forked, child_is_refused_and_the_job_goes_on) {
  Job job(2, "forks");
  for (int r = 0; r < 2; ++r) EXPECT_EQ(job[r].read_line(), "done");
}

TEST(Startup, a_rank_that_cannot_start_says_its_own_cause_and_the_others_name_it) {
  Job job(2, "once", {}, 1);
  job.add("once", {"1", "2", job.store(), "segment.huge_pages=require"});
  const std::string other = job[0].read_line(), own = job[1].read_line();
  if (own == "done" || contains(own, "mismatch")) GTEST_SKIP() << "huge pages are to be had here";
  EXPECT_TRUE(contains(other, "rank 1 cannot start: ")) << other;
  EXPECT_TRUE(contains(own, "this rank cannot start: ")) << own;
}

TEST(Startup, different_backings_are_a_mismatch_not_a_missing_rank) {
  Job job(2, "once", {}, 1);
  job.add("once", {"1", "2", job.store(), "segment.backing=shm"});
  for (int r = 0; r < 2; ++r) {
    const std::string text = job[r].read_line();
    EXPECT_TRUE(contains(text, "segment.backing auto") && contains(text, "segment.backing shm")) << text;
  }
}

TEST(TwoJobs, side_by_side_do_not_meet) {
  Job a(3, "once"), b(3, "once");
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(a[r].read_line(), "done");
    EXPECT_EQ(b[r].read_line(), "done");
  }
}

TEST(Sizes, jobs_of_1_to_9_processes_on_both_backings) {
  for (const char* backing : {"memfd", "shm"})
    for (const int size : {1, 2, 5, 9}) {
      Job job(size, "once", {std::string("segment.backing=") + backing});
      for (int r = 0; r < size; ++r) EXPECT_EQ(job[r].read_line(), "done") << backing << " " << size;
      for (int r = 0; r < size; ++r) EXPECT_EQ(job[r].wait(), 0);
      EXPECT_EQ(files_in_shm(), 0u);
    }
}

TEST(Idle, a_blocked_rank_sleeps) {
  Job job(2, "waiting");
  job.expect_ready();
  std::this_thread::sleep_for(std::chrono::milliseconds(3000));
  job[1].write_line("go");
  const std::string waited_us = job[0].read_line();
  // 10 ms for the spinning and yielding at the beginning, then 1 % of 3 s.
  EXPECT_LT(std::stol(waited_us), 40000) << "CPU time in us";
  EXPECT_EQ(job[0].read_line(), "done");
}

TEST(Startup, names_the_missing_rank) {
  Job job(3, "once", {"startup.timeout_ms=700"}, 2);
  for (int r = 0; r < 2; ++r) {
    const std::string text = job[r].read_line();
    EXPECT_TRUE(contains(text, "timeout")) << text;
    EXPECT_TRUE(contains(text, "rank 2 ")) << text;
  }
}

TEST(Startup, shows_settings_on_which_ranks_disagree) {
  Job job(2, "once", {}, 1);
  job.add("once", {"1", "2", job.store(), "channel.slots=64"});
  for (int r = 0; r < 2; ++r) {
    const std::string text = job[r].read_line();
    EXPECT_TRUE(contains(text, "mismatch: ranks are configured differently")) << text;
    EXPECT_TRUE(contains(text, "channel.slots 64")) << text;
    EXPECT_TRUE(contains(text, "channel.slots 128")) << text;
  }
}

TEST(Startup, works_where_membarrier_is_denied_to_one_rank) {
  Job job(2, "without_membarrier", {}, 1);
  job.add("without_membarrier", {"1", "2", job.store()});
  for (int r = 0; r < 2; ++r) EXPECT_EQ(job[r].read_line(), "done");
}

// Each rank mounts its own /dev/shm here, so only anonymous segments can be shared.
TEST(SmallShm, of_1_mib_is_enough_for_anonymous_segments_and_a_clear_error_for_files) {
  Job works(2, "in_small_shm");
  const std::string first = works[0].read_line();
  if (first == "cannot") GTEST_SKIP() << "mount namespaces are not permitted here";
  EXPECT_EQ(first, "done");
  EXPECT_EQ(works[1].read_line(), "done");
  Job fails(2, "in_small_shm", {"segment.backing=shm"});
  for (int r = 0; r < 2; ++r) {
    const std::string text = fails[r].read_line();
    for (const char* part : {"out_of_memory", "/dev/shm", "needed", "free", "--shm-size"})
      EXPECT_TRUE(contains(text, part)) << part << " is not in: " << text;
    EXPECT_EQ(fails[r].wait(), 0);
  }
}

}  // namespace
}  // namespace slipring::engine
