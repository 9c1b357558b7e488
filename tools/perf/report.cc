#include "tools/perf/report.h"

#include <fmt/format.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/status.h"

namespace slipring::tools::perf {
namespace {

nlohmann::ordered_json to_json(const Row& row) {
  return {
      {"op", row.op},
      {"bytes", row.bytes},
      {"count", row.count},
      {"dtype", row.dtype},
      {"redop", row.redop},
      {"ranks", row.ranks},
      {"nodes", row.nodes},
      {"algo", row.algo},
      {"transport", row.transport},
      {"time_us", row.time_us.median},
      {"min_us", row.time_us.min},
      {"p99_us", row.time_us.p99},
      {"algbw_gbps", row.algbw_gbps},
      {"busbw_gbps", row.busbw_gbps},
      {"wrong", row.checked ? nlohmann::ordered_json(row.wrong) : nlohmann::ordered_json()},
      {"root", row.root},
      {"in_place", row.in_place},
      {"buffers", row.buffers},
      {"samples", row.samples},
      {"batch", row.batch},
      {"groups", row.groups},
      {"inflight", row.inflight},
      {"p90_us", row.time_us.p90},
      {"p999_us", row.time_us.p999},
      {"max_us", row.time_us.max},
  };
}

/// The same fields in the same order; no value of ours holds a comma or a quote.
std::string csv_line(const nlohmann::ordered_json& object, bool names) {
  std::string line;
  for (const auto& [name, value] : object.items()) {
    if (!line.empty()) line += ',';
    if (names) {
      line += name;
    } else if (value.is_string()) {
      line += value.get<std::string>();
    } else if (!value.is_null()) {
      line += value.dump();
    }
  }
  return line + '\n';
}

/// Four significant figures at most: 0.274, 12.31, 4881.
std::string figure(double value) {
  if (value < 10) return fmt::format("{:.3f}", value);
  if (value < 1000) return fmt::format("{:.2f}", value);
  return fmt::format("{:.0f}", value);
}

constexpr const char* kRowFormat =
    "{:>12} {:>12} {:>5} {:>5} {:>5} {:>11} {:>9} {:>9} {:>9} {:>9} {:>7} {:>7} {:>7}\n";

}  // namespace

Result<Report::File> Report::open_file(const std::string& path) {
  if (path.empty()) return File();
  if (path == "-") return File(stdout);
  File file(std::fopen(path.c_str(), "we"));
  if (!file) return base::errno_error(errno, fmt::format("opening {}", path));
  return file;
}

Result<Report> Report::open(const std::string& json, const std::string& csv) {
  Report report;
  auto json_file = open_file(json);
  if (!json_file) return json_file.status();
  auto csv_file = open_file(csv);
  if (!csv_file) return csv_file.status();
  report.json_ = std::move(*json_file);
  report.csv_ = std::move(*csv_file);
  // Rows on standard output are for programs; people read the table on standard error then.
  if (json == "-" || csv == "-") report.table_ = stderr;
  return report;
}

void Report::print_facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  for (const auto& [name, value] : facts) fmt::print(table_, "# {:<16}{}\n", name, value);
}

void Report::header(const std::vector<std::pair<std::string, std::string>>& facts) {
  print_facts(facts);
  fmt::print(table_, "#\n");
  fmt::print(table_, fmt::runtime(kRowFormat), "size", "count", "type", "redop", "root", "algo", "transport",
             "time", "min", "p99", "algbw", "busbw", "#wrong");
  fmt::print(table_, fmt::runtime(kRowFormat), "(B)", "(elements)", "", "", "", "", "", "(us)", "(us)",
             "(us)", "(GB/s)", "(GB/s)", "");
  std::fflush(table_);
  if (csv_) lost_ |= std::fputs(csv_line(to_json({}), true).c_str(), csv_.get()) < 0;
}

void Report::row(const Row& row) {
  fmt::print(table_, fmt::runtime(kRowFormat), row.bytes, row.count, row.dtype, row.redop, row.root, row.algo,
             row.transport, figure(row.time_us.median), figure(row.time_us.min), figure(row.time_us.p99),
             figure(row.algbw_gbps), figure(row.busbw_gbps),
             row.checked ? fmt::format("{}", row.wrong) : "N/A");
  std::fflush(table_);
  const nlohmann::ordered_json object = to_json(row);
  const auto write = [&](std::FILE* file, const std::string& line) {
    lost_ |= std::fputs(line.c_str(), file) < 0 || std::fflush(file) != 0;
  };
  if (json_) write(json_.get(), object.dump() + '\n');
  if (csv_) write(csv_.get(), csv_line(object, false));
}

void Report::closing(const std::vector<std::pair<std::string, std::string>>& facts) {
  print_facts(facts);
  std::fflush(table_);
}

Status Report::finish() {
  if (!lost_) return {};
  return base::error(StatusCode::system_error, "rows could not be written; is the disk full?");
}

}  // namespace slipring::tools::perf
