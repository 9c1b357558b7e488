// Runs the tool as a user does. The paths of the program and of the source tree come from the build.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/base/temporary_folder.h"

namespace slipring::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Outcome {
  int exit_status = -1;
  std::string out;
  std::string err;
};

class SlipringInfoTest : public ::testing::Test {
 protected:
  /// Runs the tool with these arguments in an environment of these variables alone.
  Outcome run(const std::vector<std::string>& arguments, std::map<std::string, std::string> environment = {},
              bool on_first_cpu_only = false) {
    environment.emplace("XDG_CONFIG_HOME", folder_.path("xdg"));
    std::vector<std::string> words{SLIPRING_INFO_PROGRAM};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<std::string> variables;
    for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
    const std::string out = folder_.path("out"), err = folder_.path("err");

    const pid_t child = ::fork();
    if (child == 0) {
      if (on_first_cpu_only) restrict_to_first_cpu();
      ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDOUT_FILENO);
      ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
      ::alarm(30);
      ::execve(SLIPRING_INFO_PROGRAM, pointers(words).data(), pointers(variables).data());
      ::_exit(127);
    }
    int state = 0;
    EXPECT_EQ(::waitpid(child, &state, 0), child);
    EXPECT_TRUE(WIFEXITED(state)) << state;
    return {WEXITSTATUS(state), tests::read_text(out), tests::read_text(err)};
  }

  /// The lines of a dump that are no comments.
  static std::string values_of(const std::string& dump) {
    std::string values;
    std::istringstream lines(dump);
    for (std::string line; std::getline(lines, line);)
      if (!line.starts_with('#')) values += line + "\n";
    return values;
  }

  static std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> result;
    for (std::string& text : texts) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
  }

  static void restrict_to_first_cpu() {
    cpu_set_t cpus;
    ::sched_getaffinity(0, sizeof cpus, &cpus);
    int first = 0;
    while (!CPU_ISSET(first, &cpus)) ++first;
    CPU_ZERO(&cpus);
    CPU_SET(first, &cpus);
    ::sched_setaffinity(0, sizeof cpus, &cpus);
  }

  tests::TemporaryFolder folder_;
};

TEST_F(SlipringInfoTest, VersionIsThatOfTheProject) {
  const Outcome outcome = run({"--version"});
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_EQ(outcome.out, "slipring " SLIPRING_VERSION "\n");
}

TEST_F(SlipringInfoTest, ReferenceInDocsIsTheOneThatTheKeysGive) {
  const Outcome outcome = run({"--config-docs"});
  EXPECT_EQ(outcome.exit_status, 0);
  // Not EXPECT_EQ, which would print both pages.
  EXPECT_TRUE(outcome.out == tests::read_text(SLIPRING_SOURCE_DIR "/docs/config.md"))
      << "docs/config.md is not what base/config_keys.def gives: build the target config-docs";
}

TEST_F(SlipringInfoTest, ConfigShowsOriginsAndLoadsAgain) {
  const Outcome first =
      run({"--config"}, {{"SLIPRING_WAIT_SPIN_NS", "77"}, {"SLIPRING_LOG_FILE", "a \"b\""}});
  EXPECT_EQ(first.exit_status, 0) << first.err;
  EXPECT_EQ(first.err, "");
  EXPECT_THAT(first.out,
              HasSubstr("# origin: environment variable SLIPRING_WAIT_SPIN_NS\nwait.spin_ns = 77\n"));

  const std::string file = folder_.write("dump.toml", first.out);
  const Outcome second = run({"--config"}, {{"SLIPRING_CONFIG", file}});
  EXPECT_EQ(second.exit_status, 0) << second.err;
  EXPECT_EQ(second.err, "");
  EXPECT_THAT(second.out, HasSubstr("# origin: file named by SLIPRING_CONFIG " + file + ":"));
  EXPECT_EQ(values_of(second.out), values_of(first.out));
}

TEST_F(SlipringInfoTest, WarningsAndErrorsOfTheConfigurationAreShown) {
  // A log level or file that is being looked into must not hide the warnings.
  const Outcome warned = run({"--config"}, {{"SLIPRING_PLAN_RING", "1"}, {"SLIPRING_LOG_LEVEL", "off"}});
  EXPECT_EQ(warned.exit_status, 0);
  EXPECT_EQ(warned.err,
            "slipring-info: warning: unknown environment variable SLIPRING_PLAN_RING; nearest known variable "
            "SLIPRING_PLAN_RINGS\n");

  const Outcome failed = run({"--config"}, {{"SLIPRING_PLAN_RINGS", "many"}});
  EXPECT_EQ(failed.exit_status, 1);
  EXPECT_EQ(failed.out, "");
  EXPECT_THAT(failed.err,
              StartsWith("slipring-info: invalid_argument: config key plan.rings has value \"many\""));
}

TEST_F(SlipringInfoTest, SummaryNamesBuildAndHost) {
  const Outcome outcome = run({});
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  char host[256] = {};
  ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
  EXPECT_THAT(outcome.out,
              StartsWith("slipring                " SLIPRING_VERSION "\nhost                    " +
                         std::string(host) + "\n"));
  for (const char* fact : {"\nkernel ", "\ncpu ", "\ncpuset ", "\ncaches ", "\n/dev/shm ",
                           "\ntransparent huge pages ", "\ntransports              inproc, shm\n"})
    EXPECT_THAT(outcome.out, HasSubstr(fact));
}

TEST_F(SlipringInfoTest, SummaryCountsTheCpusOfTheCpusetNotOfTheHost) {
  const Outcome outcome = run({}, {}, true);
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(" (CPUs 1 of "));
}

TEST_F(SlipringInfoTest, OutputThatCannotBeWrittenIsAFailure) {
  const int exit_status = std::system(SLIPRING_INFO_PROGRAM " --config-docs > /dev/full 2> /dev/null");
  EXPECT_TRUE(WIFEXITED(exit_status));
  EXPECT_EQ(WEXITSTATUS(exit_status), 1);
}

TEST_F(SlipringInfoTest, DrawsAndCostsAPlan) {
  const Outcome ring = run({"plan", "all_reduce", "ring", "-n", "3", "-b", "12288"});
  EXPECT_EQ(ring.exit_status, 0);
  EXPECT_THAT(ring.out, HasSubstr("all_reduce ring: ranks 3"));
  EXPECT_THAT(ring.out, HasSubstr("b0 -> 1"));
  // 2 (n - 1) steps of a third each, from every rank.
  EXPECT_THAT(ring.out, HasSubstr("messages 12, bytes 49152, most bytes sent by one rank 16384"));
  const Outcome costed = run({"plan", "broadcast", "binomial_tree", "-n", "1000", "--no-draw"});
  EXPECT_EQ(costed.exit_status, 0);
  EXPECT_THAT(costed.out, StartsWith("for 1048576 bytes"));
}

TEST_F(SlipringInfoTest, ListsAlgorithmsAndRefusesUnknownOnes) {
  EXPECT_THAT(run({"plan"}).out, HasSubstr("recursive_doubling"));
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"plan", "all_reduce", "rings"}, {"plan", "all_reduce", "ring", "-n", "0"},
                                                {"plan", "broadcast", "ring", "-n", "4", "-r", "4"}}) {
    const Outcome outcome = run(wrong);
    EXPECT_EQ(outcome.exit_status, 1);
    EXPECT_THAT(outcome.err, StartsWith("slipring-info: "));
  }
}

TEST_F(SlipringInfoTest, ContradictionsAndUnknownOptionsFail) {
  EXPECT_NE(run({"--config", "--config-docs"}).exit_status, 0);
  EXPECT_NE(run({"--no-such-option"}).exit_status, 0);
  EXPECT_NE(run({"no_such_command"}).exit_status, 0);
}

}  // namespace
}  // namespace slipring::tools
