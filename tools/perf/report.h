// What slipring-perf prints: a header about the machine, one row per size, and a closing line about memory.
//
// Rows go to the table and, if asked for, to a JSON file (one object per line) and a CSV file; each row is
// flushed, so that an interrupted run leaves whole rows. Used by rank 0's thread. Files that cannot be
// written are errors.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "slipring/status.h"
#include "tools/perf/statistics.h"

namespace slipring::tools::perf {

struct Row {
  std::string op;
  std::size_t bytes = 0;
  std::size_t count = 0;
  std::string dtype;
  std::string redop;  ///< "none" where nothing is reduced
  int root = -1;      ///< -1: the operation has none
  int ranks = 0;
  int nodes = 0;
  std::string algo;
  std::string transport;
  Statistics time_us;
  double algbw_gbps = 0;  ///< 10^9 bytes per second, as busbw_gbps
  double busbw_gbps = 0;
  std::uint64_t wrong = 0;
  bool checked = true;
  bool in_place = false;
  std::string buffers;  ///< "private" or "heap"
  std::int64_t samples = 0;
  std::int64_t batch = 0;
  int inflight = 0;
  int groups = 1;  ///< that ran at the same time, of `ranks` ranks each
};

class Report {
 public:
  /// `json` and `csv` are files, "-" for standard output, or empty.
  static Result<Report> open(const std::string& json, const std::string& csv);

  void header(const std::vector<std::pair<std::string, std::string>>& facts);
  void row(const Row& row);
  void closing(const std::vector<std::pair<std::string, std::string>>& facts);
  /// Whether everything reached its file.
  Status finish();

 private:
  struct Close {
    void operator()(std::FILE* file) const noexcept {
      if (file != stdout) std::fclose(file);
    }
  };
  using File = std::unique_ptr<std::FILE, Close>;
  static Result<File> open_file(const std::string& path);
  void print_facts(const std::vector<std::pair<std::string, std::string>>& facts);

  std::FILE* table_ = stdout;
  File json_;
  File csv_;
  bool lost_ = false;
};

}  // namespace slipring::tools::perf
