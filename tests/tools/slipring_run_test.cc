// slipring-run as its users meet it: exit statuses, sentences, signals, deaths, and nothing left behind.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{60};

class RunTest : public testing::Test {
 protected:
  struct Outcome {
    int wait_status = -1;
    int status = -1;  // exit status, -1 if killed
    std::string output;
    std::string error;
  };

  RunTest() {
    std::string path = "/tmp/slipring-run-test-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) ADD_FAILURE() << "mkdtemp";
    directory_ = path;
    // Where the launcher under test keeps files, so that leftovers show.
    std::filesystem::create_directory(directory_ + "/tmp");
  }
  ~RunTest() override {
    for (const pid_t pid : started_) {
      if (kill(pid, SIGKILL) == 0) waitpid(pid, nullptr, 0);
    }
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  pid_t start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), SLIPRING_RUN_PROGRAM);
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
      dup2(open((directory_ + "/output").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600), STDOUT_FILENO);
      dup2(open((directory_ + "/error").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600), STDERR_FILENO);
      close_range(3, ~0U, 0);
      setenv("TMPDIR", (directory_ + "/tmp").c_str(), 1);
      execv(pointers[0], pointers.data());
      _exit(126);
    }
    started_.push_back(pid);
    return pid;
  }

  Outcome wait(pid_t pid) {
    Outcome outcome;
    const auto end = Clock::now() + kPatience;
    while (waitpid(pid, &outcome.wait_status, WNOHANG) == 0) {
      if (Clock::now() > end) {
        ADD_FAILURE() << "slipring-run has not ended";
        return outcome;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    std::erase(started_, pid);
    if (WIFEXITED(outcome.wait_status)) outcome.status = WEXITSTATUS(outcome.wait_status);
    outcome.output = contents("output");
    outcome.error = contents("error");
    return outcome;
  }

  Outcome run(const std::vector<std::string>& arguments) { return wait(start(arguments)); }

  /// A pid that a probe has left, waited for; -1 if it does not come.
  pid_t pid_of(const std::string& who) {
    const auto end = Clock::now() + kPatience;
    while (Clock::now() < end) {
      pid_t pid = -1;
      if (std::ifstream(directory_ + "/" + who) >> pid) return pid;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ADD_FAILURE() << who << " has not come";
    return -1;
  }

  static bool is_gone(pid_t pid) {
    const auto end = Clock::now() + kPatience;
    while (Clock::now() < end) {
      if (kill(pid, 0) != 0 && errno == ESRCH) return true;
      // Whoever adopted it may be slow to reap it; a zombie runs nothing and holds nothing.
      std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
      std::string line;
      std::getline(stat, line);
      const std::size_t after_name = line.rfind(')');
      if (after_name != std::string::npos && line.substr(after_name + 2, 1) == "Z") return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  std::string contents(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(directory_ + "/" + name).rdbuf();
    return text.str();
  }

  bool has_leftover_files() const { return !std::filesystem::is_empty(directory_ + "/tmp"); }
  bool are_leftovers_removed() const {
    const auto end = Clock::now() + kPatience;
    while (has_leftover_files() && Clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return !has_leftover_files();
  }

  const std::string probe_ = RUN_PROBE_PROGRAM;
  std::string directory_;

 private:
  std::vector<pid_t> started_;
};

TEST_F(RunTest, RanksMeetInTheStoreOfEitherKind) {
  for (const char* store : {"tcp", "file"}) {
    const Outcome outcome = run({"-n", "4", "--store", store, probe_, "meet"});
    EXPECT_EQ(outcome.status, 0) << outcome.error;
    EXPECT_EQ(outcome.error, "");
    EXPECT_FALSE(has_leftover_files());
  }
}

TEST_F(RunTest, TwoJobsSideBySide) {
  const pid_t one = start({"-n", "3", probe_, "meet"});
  const pid_t two = start({"-n", "3", probe_, "meet"});
  EXPECT_EQ(wait(one).status, 0);
  EXPECT_EQ(wait(two).status, 0);
}

TEST_F(RunTest, TheFirstFailingRanksStatusIsTheLaunchersAndTheOthersEnd) {
  const Outcome outcome = run({"-n", "3", probe_, "exit", "7", "1"});
  EXPECT_EQ(outcome.status, 7);
  EXPECT_THAT(outcome.error,
              ContainsRegex(
                  "^slipring-run: rank 1 \\(pid [0-9]+\\) exited with status 7; ending the other ranks\n$"));
}

TEST_F(RunTest, ARankThatIsKilledGives128PlusTheSignal) {
  const Outcome outcome = run({"-n", "3", probe_, "kill", std::to_string(SIGKILL), "2"});
  EXPECT_EQ(outcome.status, 128 + SIGKILL);
  EXPECT_THAT(outcome.error, ContainsRegex("rank 2 \\(pid [0-9]+\\) was killed by signal 9 \\(Killed\\)"));
}

TEST_F(RunTest, WithNoKillTheOthersGoOn) {
  const Outcome outcome = run({"-n", "3", "--no-kill", probe_, "exit-late", "5", "0"});
  EXPECT_EQ(outcome.status, 5);
  EXPECT_THAT(outcome.output, HasSubstr("rank 1 went on"));
  EXPECT_THAT(outcome.output, HasSubstr("rank 2 went on"));
}

TEST_F(RunTest, RanksThatIgnoreBeingAskedAreKilledAfterTheGrace) {
  const pid_t launcher = start({"-n", "2", "--grace", "0.1", probe_, "pids", directory_});
  const std::vector<pid_t> pids{pid_of("rank0"), pid_of("rank1"), pid_of("grandchild0"),
                                pid_of("grandchild1")};
  kill(launcher, SIGTERM);
  const Outcome outcome = wait(launcher);
  EXPECT_EQ(outcome.status, 128 + SIGKILL);
  EXPECT_THAT(outcome.error, HasSubstr("ranks 0, 1 did not end within 100 ms of being asked; killing"));
  for (const pid_t pid : pids) EXPECT_TRUE(is_gone(pid));
}

TEST_F(RunTest, SignalsArePassedOn) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    const pid_t launcher = start({"-n", "2", probe_, "catch", directory_});
    pid_of("rank0");
    pid_of("rank1");
    kill(launcher, number);
    EXPECT_EQ(wait(launcher).status, number);
    std::filesystem::remove(directory_ + "/rank0");
    std::filesystem::remove(directory_ + "/rank1");
  }
}

TEST_F(RunTest, AStoppedRankCanStillBeEnded) {
  const pid_t launcher = start({"-n", "2", probe_, "catch", directory_});
  const pid_t stopped = pid_of("rank1");
  pid_of("rank0");
  kill(stopped, SIGSTOP);
  kill(launcher, SIGTERM);
  EXPECT_EQ(wait(launcher).status, SIGTERM);
}

TEST_F(RunTest, NothingOutlivesALauncherThatIsKilled) {
  for (const char* store : {"tcp", "file"}) {
    const pid_t launcher = start({"-n", "3", "--store", store, probe_, "pids", directory_});
    std::vector<pid_t> pids;
    for (const char* who : {"rank0", "rank1", "rank2", "grandchild0", "grandchild1", "grandchild2"}) {
      pids.push_back(pid_of(who));
      std::filesystem::remove(directory_ + "/" + who);
    }
    EXPECT_EQ(has_leftover_files(), std::string_view(store) == "file");
    kill(launcher, SIGKILL);
    wait(launcher);
    for (const pid_t pid : pids) EXPECT_TRUE(is_gone(pid)) << pid;
    EXPECT_TRUE(are_leftovers_removed());
  }
}

TEST_F(RunTest, AJobThatTakesTooLongIsEnded) {
  const Outcome outcome = run({"-n", "2", "--timeout", "0.2", probe_, "exit", "0", "1"});
  EXPECT_EQ(outcome.status, 124);
  EXPECT_THAT(outcome.error, HasSubstr("rank 0 still running after 200 ms; ending the job"));
}

TEST_F(RunTest, LabelsStandBeforeEveryLineAndLinesStayWhole) {
  const Outcome outcome = run({"-n", "3", "--label", probe_, "lines"});
  EXPECT_EQ(outcome.status, 0);
  std::istringstream lines(outcome.output);
  std::vector<int> next(3, 0);
  for (std::string line; std::getline(lines, line);) {
    int label = -1;
    int number = -1;
    int rank = -1;
    ASSERT_EQ(sscanf(line.c_str(), "[%d] line %d of rank %d", &label, &number, &rank), 3) << line;
    EXPECT_EQ(label, rank);
    EXPECT_EQ(number, next[rank]++);
  }
  EXPECT_EQ(next, std::vector<int>(3, 200));
  for (const char* line : {"[0] to error\n", "[1] to error\n", "[2] to error\n"}) {
    EXPECT_THAT(outcome.error, HasSubstr(line));
  }
}

TEST_F(RunTest, RanksStartWithACleanSlate) {
  for (const char* label : {"", "--label"}) {
    std::vector<std::string> arguments{"-n", "2", probe_, "mask"};
    if (*label != '\0') arguments.insert(arguments.begin(), label);
    EXPECT_EQ(run(arguments).status, 0);
  }
}

TEST_F(RunTest, VariablesAreAddedAndTheLaunchersOwnAreRefused) {
  Outcome outcome = run({"-n", "1", "--env", "A=1", "--env", "B=x=y", "env"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("\nA=1\n"));
  EXPECT_THAT(outcome.output, HasSubstr("\nB=x=y\n"));
  outcome = run({"-n", "1", "--env", "SLIPRING_RANK=3", "env"});
  EXPECT_EQ(outcome.status, 127);
  EXPECT_THAT(outcome.error, HasSubstr("SLIPRING_RANK is set for each rank by the launcher"));
}

TEST_F(RunTest, ArgumentsAfterTheProgramAreTheProgramsOwn) {
  const Outcome outcome = run({"-n", "1", "echo", "--label", "-n", "3", "--", "x"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.output, "--label -n 3 -- x\n");
}

TEST_F(RunTest, AProgramThatCannotBeStartedIsNamed) {
  Outcome outcome = run({"-n", "2", "no-such-program"});
  EXPECT_EQ(outcome.status, 127);
  EXPECT_THAT(outcome.error, HasSubstr("no-such-program"));
  std::ofstream(directory_ + "/script") << "no program";
  std::filesystem::permissions(directory_ + "/script", std::filesystem::perms::owner_all);
  outcome = run({"-n", "2", directory_ + "/script"});
  EXPECT_EQ(outcome.status, 127);
  EXPECT_THAT(outcome.error, HasSubstr("Exec format error"));
  EXPECT_THAT(outcome.error, HasSubstr("rank 0 of 2 not started"));
}

TEST_F(RunTest, WrongUsageIsStatusTwo) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{},
                                             {"-n", "2"},
                                             {"-n", "0", "env"},
                                             {"-n", "x", "env"},
                                             {"env"},
                                             {"-n", "2", "--store", "udp", "env"},
                                             {"-n", "2", "--env", "A", "env"},
                                             {"-n", "2", "--nonsense", "env"}}) {
    EXPECT_EQ(run(arguments).status, 2);
  }
}

}  // namespace
