#include "tools/perf/report.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/base/temporary_folder.h"

namespace slipring::tools::perf {
namespace {

using testing::HasSubstr;

std::vector<std::string> lines_of(const std::string& path) {
  std::istringstream text(tests::read_text(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

class ReportFiles : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path(name); }

  tests::TemporaryFolder folder_;
};

Row some_row() {
  Row row;
  row.op = "all_reduce";
  row.bytes = 1024;
  row.count = 256;
  row.dtype = "f32";
  row.redop = "sum";
  row.ranks = 2;
  row.nodes = 1;
  row.algo = "one_shot";
  row.transport = "shm";
  row.time_us = {.median = 0.25, .min = 0.125, .p99 = 1.5};
  row.algbw_gbps = 4.096;
  row.busbw_gbps = 4.096;
  row.buffers = "private";
  row.samples = 20;
  row.batch = 15;
  return row;
}

TEST_F(ReportFiles, HaveOneObjectAndOneLinePerRowWithTheSameFields) {
  auto report = Report::open(path("rows.json"), path("rows.csv"));
  ASSERT_TRUE(report.is_ok()) << report.status().to_string();
  testing::internal::CaptureStdout();
  report->header({{"host", "here"}});
  report->row(some_row());
  Row wrong = some_row();
  wrong.wrong = 3;
  report->row(wrong);
  ASSERT_TRUE(report->finish().is_ok());
  const std::string table = testing::internal::GetCapturedStdout();
  EXPECT_THAT(table, HasSubstr("# host"));
  EXPECT_THAT(table, HasSubstr("one_shot"));

  const auto json = lines_of(path("rows.json"));
  ASSERT_EQ(json.size(), 2U);
  const auto object = nlohmann::json::parse(json[1]);
  for (const char* field : {"op", "bytes", "count", "dtype", "redop", "ranks", "nodes", "algo", "transport",
                            "time_us", "min_us", "p99_us", "algbw_gbps", "busbw_gbps", "wrong"}) {
    EXPECT_TRUE(object.contains(field)) << field;
  }
  EXPECT_EQ(object["bytes"], 1024);
  EXPECT_EQ(object["p99_us"], 1.5);
  EXPECT_EQ(object["wrong"], 3);

  const auto csv = lines_of(path("rows.csv"));
  ASSERT_EQ(csv.size(), 3U);
  EXPECT_THAT(csv[0], testing::StartsWith("op,bytes,count,dtype,redop,ranks"));
  EXPECT_THAT(csv[1],
              testing::StartsWith("all_reduce,1024,256,f32,sum,2,1,one_shot,shm,0.25,0.125,1.5,4.096"));
  EXPECT_EQ(std::count(csv[0].begin(), csv[0].end(), ','), std::count(csv[1].begin(), csv[1].end(), ','));
}

TEST_F(ReportFiles, SayNothingAboutWrongElementsWhenNothingWasChecked) {
  auto report = Report::open(path("rows.json"), "");
  ASSERT_TRUE(report.is_ok());
  testing::internal::CaptureStdout();
  Row row = some_row();
  row.checked = false;
  report->row(row);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("N/A"));
  EXPECT_TRUE(nlohmann::json::parse(lines_of(path("rows.json"))[0])["wrong"].is_null());
}

TEST_F(ReportFiles, ThatCannotBeOpenedAreNamed) {
  const auto report = Report::open(path("no/such/folder/rows.json"), "");
  ASSERT_FALSE(report.is_ok());
  EXPECT_THAT(report.status().message(), HasSubstr("no/such/folder/rows.json"));
}

TEST(ReportTable, AFullDiskIsNotSilent) {
  auto report = Report::open("/dev/full", "");
  ASSERT_TRUE(report.is_ok());
  testing::internal::CaptureStdout();
  report->row(some_row());
  testing::internal::GetCapturedStdout();
  EXPECT_FALSE(report->finish().is_ok());
}

TEST(ReportTable, LeavesStandardOutputToTheRows) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  {
    auto report = Report::open("-", "");
    ASSERT_TRUE(report.is_ok());
    report->header({{"host", "here"}});
    report->row(some_row());
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("# host"));
  EXPECT_TRUE(nlohmann::json::accept(testing::internal::GetCapturedStdout()));
}

}  // namespace
}  // namespace slipring::tools::perf
