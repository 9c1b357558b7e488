#include "engine/rank_environment.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "engine/store/job_token.h"
#include "store_places.h"

namespace slipring::engine {
namespace {

using Variables = std::map<std::string, std::string>;

Result<RankEnvironment> with(const Variables& variables, const JobOptions& options = {}) {
  return rank_environment(options, [&variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional<std::string>(found->second);
  });
}

const Variables kComplete{{"SLIPRING_RANK", "1"},
                          {"SLIPRING_SIZE", "4"},
                          {"SLIPRING_STORE", "tcp://127.0.0.1:1234"},
                          {"SLIPRING_JOB_TOKEN", "secret"}};

Variables complete_but(const std::string& name, const std::string& value) {
  Variables variables = kComplete;
  variables[name] = value;
  return variables;
}

Variables complete_without(const std::string& name) {
  Variables variables = kComplete;
  variables.erase(name);
  return variables;
}

void expect_refused(const Result<RankEnvironment>& result, std::initializer_list<const char*> parts) {
  ASSERT_FALSE(result);
  for (const char* part : parts) {
    EXPECT_NE(result.status().message().find(part), std::string::npos) << result.status().message();
  }
}

TEST(RankEnvironmentTest, ReadsWhatTheLauncherSet) {
  const auto read = with(kComplete);
  ASSERT_TRUE(read) << read.status().to_string();
  EXPECT_EQ(read.value().rank, 1);
  EXPECT_EQ(read.value().size, 4);
  EXPECT_EQ(read.value().store_url, "tcp://127.0.0.1:1234");
  EXPECT_EQ(read.value().job_token, "secret");
  EXPECT_EQ(read.value().source, "slipring-run");
}

TEST(RankEnvironmentTest, ValuesOfTheApiWinFieldByField) {
  JobOptions options;
  options.rank = 3;
  options.job_token = "secret of the API";
  const auto read = with(kComplete, options);
  ASSERT_TRUE(read) << read.status().to_string();
  EXPECT_EQ(read.value().rank, 3);
  EXPECT_EQ(read.value().size, 4);
  EXPECT_EQ(read.value().job_token, "secret of the API");
  EXPECT_EQ(read.value().source, "API and slipring-run");
}

TEST(RankEnvironmentTest, TheApiAloneIsEnough) {
  JobOptions options;
  options.rank = 0;
  options.size = 2;
  options.store = "file:///tmp/x";
  options.job_token = "secret";
  const auto read = with({}, options);
  ASSERT_TRUE(read) << read.status().to_string();
  EXPECT_EQ(read.value().source, "API");
}

TEST(RankEnvironmentTest, NothingSetSaysHowToStart) {
  expect_refused(with({}), {"SLIPRING_RANK", "SLIPRING_SIZE", "slipring-run -n"});
}

TEST(RankEnvironmentTest, AHalfSetPairNamesTheOtherHalf) {
  expect_refused(with(complete_without("SLIPRING_SIZE")), {"rank 1", "no size", "SLIPRING_SIZE"});
  expect_refused(with(complete_without("SLIPRING_RANK")), {"size 4", "no rank", "SLIPRING_RANK"});
}

TEST(RankEnvironmentTest, UnparsableNumbersNameVariableAndValue) {
  for (const char* bad : {"", "x", "1x", " 1", "1.0", "-1", "99999999999"}) {
    expect_refused(with(complete_but("SLIPRING_RANK", bad)), {"SLIPRING_RANK", bad});
    expect_refused(with(complete_but("SLIPRING_SIZE", bad)), {"SLIPRING_SIZE", bad});
  }
  expect_refused(with(complete_but("SLIPRING_SIZE", "0")), {"SLIPRING_SIZE"});
}

TEST(RankEnvironmentTest, ARankOutsideItsJobIsContradicting) {
  expect_refused(with(complete_but("SLIPRING_RANK", "4")),
                 {"rank 4", "size 4", "SLIPRING_RANK", "SLIPRING_SIZE"});
}

TEST(RankEnvironmentTest, AJobOfSeveralNeedsAStoreAndAToken) {
  expect_refused(with(complete_without("SLIPRING_STORE")), {"rank 1 of 4", "SLIPRING_STORE", "tcp://"});
  expect_refused(with(complete_without("SLIPRING_JOB_TOKEN")),
                 {"SLIPRING_JOB_TOKEN", "SLIPRING_JOB_TOKEN_FILE"});
}

TEST(RankEnvironmentTest, AJobOfOneNeedsNeither) {
  const auto read = with({{"SLIPRING_RANK", "0"}, {"SLIPRING_SIZE", "1"}});
  ASSERT_TRUE(read) << read.status().to_string();
  EXPECT_EQ(read.value().store_url, "");
}

TEST(RankEnvironmentTest, AJobOfOneByTheApiStaysOutOfTheJobItWasStartedIn) {
  JobOptions options;
  options.rank = 0;
  options.size = 1;
  const auto read = with(kComplete, options);
  ASSERT_TRUE(read) << read.status().to_string();
  EXPECT_EQ(read.value().store_url, "");
  EXPECT_EQ(read.value().job_token, "");
}

class TokenFile : public testing::Test {
 protected:
  std::string write(const std::string& contents) {
    const std::string path = directory_.path() + "/token";
    std::ofstream(path, std::ios::binary) << contents;
    return path;
  }
  Result<RankEnvironment> with_file(const std::string& path) {
    Variables variables = complete_without("SLIPRING_JOB_TOKEN");
    variables["SLIPRING_JOB_TOKEN_FILE"] = path;
    return with(variables);
  }

 private:
  TemporaryDirectory directory_;
};

TEST_F(TokenFile, IsReadWithoutItsLineEnd) {
  for (const char* contents : {"secret", "secret\n", "secret\r\n"}) {
    const auto read = with_file(write(contents));
    ASSERT_TRUE(read) << read.status().to_string();
    EXPECT_EQ(read.value().job_token, "secret");
  }
}

TEST_F(TokenFile, ThatCannotBeReadIsNamed) {
  expect_refused(with_file("/no/such/file"), {"SLIPRING_JOB_TOKEN_FILE", "/no/such/file", "No such file"});
}

TEST_F(TokenFile, ThatIsEmptyOrTooLongIsRefused) {
  expect_refused(with_file(write("")), {"SLIPRING_JOB_TOKEN_FILE"});
  expect_refused(with_file(write("\n")), {"SLIPRING_JOB_TOKEN_FILE"});
  expect_refused(with_file(write(std::string(kMaxJobTokenBytes + 1, 't'))), {"SLIPRING_JOB_TOKEN_FILE"});
  EXPECT_TRUE(with_file(write(std::string(kMaxJobTokenBytes, 't') + "\n")));
}

TEST_F(TokenFile, ThatContradictsTheVariableIsAnError) {
  Variables variables = kComplete;
  variables["SLIPRING_JOB_TOKEN_FILE"] = write("another secret");
  expect_refused(with(variables), {"SLIPRING_JOB_TOKEN", "SLIPRING_JOB_TOKEN_FILE", "different"});
  variables["SLIPRING_JOB_TOKEN_FILE"] = write("secret\n");
  EXPECT_TRUE(with(variables));
}

}  // namespace
}  // namespace slipring::engine
