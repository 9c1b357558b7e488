#include "base/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <thread>
#include <vector>

#include "base/config.h"
#include "base/deadline.h"
#include "tests/base/temporary_folder.h"

namespace slipring::base {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

std::vector<std::string> lines_of(const std::string& path) {
  std::istringstream text(tests::read_text(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

/// Counts how often it is formatted.
struct Probe {
  int* formatted;
};

}  // namespace
}  // namespace slipring::base

template <>
struct fmt::formatter<slipring::base::Probe> : fmt::formatter<int> {
  auto format(const slipring::base::Probe& probe, fmt::format_context& context) const {
    return fmt::formatter<int>::format(++*probe.formatted, context);
  }
};

namespace slipring::base {
namespace {

class LogTest : public ::testing::Test {
 protected:
  ~LogTest() override {
    set_log_rank_of_thread(-1);
    set_log_rank_of_process(-1);
    EXPECT_TRUE(configure("warn", ""));
  }

  Status configure(const std::string& level, const std::string& file) {
    ConfigSources sources;
    sources.overrides = {{"log.level", level}, {"log.file", file}};
    sources.system_file = "";
    const auto config = Config::load_from(sources);
    if (!config) return config.status();
    return configure_log(config.value());
  }

  Status configure(const std::string& level) { return configure(level, file_); }
  std::vector<std::string> lines() const { return lines_of(file_); }

  tests::TemporaryFolder folder_;
  std::string file_ = folder_.path("log");
};

TEST(LogLevelsTest, ListGivesExceptionsInAnyOrder) {
  for (const char* text : {"info,store=debug,channel=off", "store=debug,info,channel=off"}) {
    const auto levels = parse_log_levels(text);
    ASSERT_TRUE(levels) << levels.status().to_string();
    for (std::size_t i = 0; i < kSubsystemCount; ++i) {
      const auto subsystem = static_cast<Subsystem>(i);
      EXPECT_EQ(levels.value()[i], subsystem == Subsystem::store     ? LogLevel::debug
                                   : subsystem == Subsystem::channel ? LogLevel::off
                                                                     : LogLevel::info);
    }
  }
  EXPECT_EQ(parse_log_levels("store=trace").value()[0], LogLevel::warn);
}

TEST(LogLevelsTest, WrongListsAreErrorsThatNameThePart) {
  const auto message = [](const char* text) {
    const auto levels = parse_log_levels(text);
    EXPECT_FALSE(levels.is_ok()) << text;
    return levels.status().message();
  };
  EXPECT_THAT(message("loud"), HasSubstr("unknown log level \"loud\"; levels are off, error, warn, "));
  EXPECT_THAT(message(""), HasSubstr("unknown log level \"\""));
  EXPECT_THAT(message("warn,"), HasSubstr("unknown log level \"\""));
  EXPECT_THAT(message("store=loud"), HasSubstr("unknown log level \"loud\""));
  EXPECT_THAT(message("=warn"), HasSubstr("unknown log subsystem \"\""));
  EXPECT_THAT(message("warn,info"), HasSubstr("\"info\" contradicts an earlier part"));
  EXPECT_THAT(message("store=warn,store=info"), HasSubstr("\"store=info\" contradicts"));
}

TEST_F(LogTest, LineCarriesTimeLevelSubsystemRankAndPid) {
  ASSERT_TRUE(configure("trace"));
  SLIPRING_LOG(warn, store, "key {} set", "k");
  set_log_rank_of_process(4);
  SLIPRING_LOG(error, channel, "from the process");
  std::thread([] {
    set_log_rank_of_thread(7);
    SLIPRING_LOG(trace, segment, "from a rank that is a thread");
  }).join();
  const std::string pid = std::to_string(::getpid());
  const std::string time = "....-..-..T..:..:..\\.......Z ";
  EXPECT_THAT(lines(),
              ElementsAre(MatchesRegex(time + "warn store pid " + pid + ": key k set"),
                          MatchesRegex(time + "error channel rank 4 pid " + pid + ": from the process"),
                          MatchesRegex(time + "trace segment rank 7 pid " + pid + ": from a rank .*")));
}

TEST_F(LogTest, TimeIsUtcNow) {
  ASSERT_TRUE(configure("info"));
  const auto stamp = [] {
    const std::time_t now = std::time(nullptr);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", std::gmtime(&now));
    return std::string(text);
  };
  const std::string before = stamp();
  SLIPRING_LOG(info, tools, "x");
  const std::string after = stamp();
  ASSERT_THAT(lines(), SizeIs(1));
  const std::string logged = lines()[0].substr(0, before.size());
  EXPECT_LE(before, logged);
  EXPECT_LE(logged, after);
}

TEST_F(LogTest, EachSubsystemObeysItsOwnThreshold) {
  ASSERT_TRUE(configure("warn,store=debug,channel=off"));
  SLIPRING_LOG(trace, store, "no: store trace");
  SLIPRING_LOG(debug, store, "yes: store debug");
  SLIPRING_LOG(info, startup, "no: startup info");
  SLIPRING_LOG(warn, startup, "yes: startup warn");
  SLIPRING_LOG(error, channel, "no: channel error");
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("yes: store debug"), HasSubstr("yes: startup warn")));
  EXPECT_TRUE(log_enabled(LogLevel::debug, Subsystem::store));
  EXPECT_FALSE(log_enabled(LogLevel::debug, Subsystem::startup));
}

TEST_F(LogTest, DefaultLevelPrintsNothingBelowWarn) {
  ::testing::internal::CaptureStderr();
  ASSERT_TRUE(configure_log(Config()));
  SLIPRING_LOG(info, communicator, "rank up");
  SLIPRING_LOG(debug, segment, "mapped");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(LogTest, RejectedLineNeitherFormatsNorEvaluatesItsArguments) {
  ASSERT_TRUE(configure("info"));
  int formatted = 0;
  int evaluated = 0;
  SLIPRING_LOG(debug, store, "{} {}", Probe{&formatted}, ++evaluated);
  EXPECT_EQ(formatted, 0);
  EXPECT_EQ(evaluated, 0);
  SLIPRING_LOG(info, store, "{} {}", Probe{&formatted}, ++evaluated);
  EXPECT_EQ(formatted, 1);
  EXPECT_EQ(evaluated, 1);
}

TEST_F(LogTest, MacroIsOneStatement) {
  ASSERT_TRUE(configure("info"));
  if (lines().empty())
    SLIPRING_LOG(info, tools, "then");
  else
    SLIPRING_LOG(info, tools, "else");
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("then")));
}

TEST_F(LogTest, ControlCharactersCannotForgeALine) {
  ASSERT_TRUE(configure("info"));
  SLIPRING_LOG(info, store, "peer sent {}", "x\n2026-01-01 error forged\x1b[2J");
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("peer sent x\\x0a2026-01-01 error forged\\x1b[2J")));
}

TEST_F(LogTest, FileIsAppendedToAndCanBeChanged) {
  ASSERT_TRUE(configure("info"));
  SLIPRING_LOG(info, tools, "one");
  const std::string other = folder_.path("other");
  ASSERT_TRUE(configure("info", other));
  SLIPRING_LOG(info, tools, "two");
  ASSERT_TRUE(configure("info"));
  SLIPRING_LOG(info, tools, "three");
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("one"), HasSubstr("three")));
  EXPECT_THAT(lines_of(other), ElementsAre(HasSubstr("two")));
}

TEST_F(LogTest, ChangingTheFileOftenKeepsOneDescriptor) {
  const auto open_descriptors = [] {
    const std::filesystem::directory_iterator entries("/proc/self/fd");
    return std::distance(begin(entries), end(entries));
  };
  ASSERT_TRUE(configure("info"));
  const auto before = open_descriptors();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(configure("info", folder_.path("log" + std::to_string(i % 3))));
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(LogTest, FileThatCannotBeOpenedIsAnErrorAndTheOldOneStays) {
  ASSERT_TRUE(configure("info"));
  const Status status = configure("info", folder_.path("no/such/folder/log"));
  EXPECT_EQ(status.code(), StatusCode::system_error);
  EXPECT_THAT(status.message(), HasSubstr("open log.file " + folder_.path("no/such/folder/log")));
  SLIPRING_LOG(info, tools, "still here");
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("still here")));
}

TEST_F(LogTest, ConfigWarningsAreLoggedOncePerProcess) {
  ConfigSources sources;
  sources.system_file = "";
  sources.environment["SLIPRING_ONLY_IN_THIS_TEST"] = "1";
  sources.overrides["log.file"] = file_;
  sources.overrides["log.level"] = "error";
  ASSERT_TRUE(configure_log(Config::load_from(sources).value()));
  EXPECT_THAT(lines(), IsEmpty());
  sources.overrides["log.level"] = "warn";
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(configure_log(Config::load_from(sources).value()));
  EXPECT_THAT(lines(), ElementsAre(HasSubstr("unknown environment variable SLIPRING_ONLY_IN_THIS_TEST")));
}

TEST_F(LogTest, LinesOfThreadsDoNotMix) {
  ASSERT_TRUE(configure("info"));
  constexpr int kThreads = 4, kLines = 500;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t] {
      set_log_rank_of_thread(t);
      for (int i = 0; i < kLines; ++i) SLIPRING_LOG(info, channel, "line {} {}.", i, std::string(100, 'x'));
    });
  }
  for (auto& thread : threads) thread.join();
  const auto all = lines();
  ASSERT_THAT(all, SizeIs(kThreads * kLines));
  const std::string tail = " " + std::string(100, 'x') + ".";
  int next[kThreads] = {};
  for (const std::string& line : all) {
    int rank = -1, number = -1, parsed = 0;
    const std::size_t start = line.find("Z info channel rank ");
    ASSERT_NE(start, line.npos) << line;
    ASSERT_EQ(std::sscanf(line.c_str() + start, "Z info channel rank %d pid %*d: line %d%n", &rank, &number,
                          &parsed),
              2)
        << line;
    EXPECT_EQ(line.substr(start + static_cast<std::size_t>(parsed)), tail);
    ASSERT_TRUE(rank >= 0 && rank < kThreads) << line;
    EXPECT_EQ(number, next[rank]++);  // in order within a thread
  }
}

TEST_F(LogTest, FileChangesWhileThreadsWriteLoseNothing) {
  const std::string other = folder_.path("other");
  ASSERT_TRUE(configure("info"));
  constexpr int kLines = 2000;
  std::thread writer([] {
    for (int i = 0; i < kLines; ++i) SLIPRING_LOG(info, channel, "line");
  });
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(configure("info", i % 2 == 0 ? other : file_));
  writer.join();
  EXPECT_EQ(lines().size() + lines_of(other).size(), static_cast<std::size_t>(kLines));
}

/// False when the child is still running at the deadline; it is killed then.
bool child_ends_well(pid_t child, const Deadline& deadline) {
  int state = 0;
  while (::waitpid(child, &state, WNOHANG) == 0) {
    if (deadline.passed()) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &state, 0);
      return false;
    }
    ::usleep(1000);
  }
  return WIFEXITED(state) && WEXITSTATUS(state) == 0;
}

TEST_F(LogTest, ForkedChildLogsWhileThreadsOfTheParentDo) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer does not follow a child of a process with threads";
#endif
  ASSERT_TRUE(configure("info"));
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (!stop.load()) SLIPRING_LOG(info, channel, "parent");
    });
  }
  int well = 0;
  constexpr int kForks = 100;
  for (int i = 0; i < kForks; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      SLIPRING_LOG(info, channel, "child {}", i);
      ::_exit(0);
    }
    well += child_ends_well(child, Deadline::after_ms(10'000)) ? 1 : 0;
  }
  stop.store(true);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(well, kForks);
  const auto all = lines();
  EXPECT_EQ(std::count_if(all.begin(), all.end(),
                          [](const std::string& line) { return line.find(": child ") != line.npos; }),
            kForks);
}

TEST(LogSourceTest, NothingElseIncludesSpdlog) {
  int files = 0;
  for (const char* floor :
       {"include", "base", "transports", "collectives", "engine", "tools", "bench", "examples"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::filesystem::path(SLIPRING_SOURCE_DIR) / floor)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cc") continue;
      ++files;
      const bool includes = tests::read_text(entry.path()).find("#include <spdlog/") != std::string::npos;
      EXPECT_EQ(includes, entry.path().filename() == "log.cc") << entry.path();
    }
  }
  EXPECT_GT(files, 20);
}

}  // namespace
}  // namespace slipring::base
