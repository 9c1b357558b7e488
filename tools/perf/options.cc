#include "tools/perf/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>
#include <string_view>

#include "tools/perf/byte_size.h"

namespace slipring::tools::perf {
namespace {

constexpr int kBadUsage = 2;

std::string operation_list() {
  std::string text;
  for (const OperationInfo* info : operations())
    text += fmt::format("\n  {:<12}{}", info->name, info->meaning);
  return text;
}

/// "f32 f64 ..." in the order of the enumeration, up to `count`.
template <class T>
std::string names(int count, std::string_view (*name)(T) noexcept, bool (*wanted)(T) noexcept = nullptr) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    const T value = static_cast<T>(i);
    if (wanted == nullptr || wanted(value)) text += fmt::format("{}{}", text.empty() ? "" : " ", name(value));
  }
  return text;
}

template <class T>
CLI::callback_t parsed(const char* option, T& target, std::optional<T> (*parse)(std::string_view) noexcept,
                       const std::string& allowed) {
  return [=, &target](const CLI::results_t& words) {
    const auto value = parse(words.front());
    if (!value)
      throw CLI::ValidationError(option, fmt::format("{} is not one of {}", words.front(), allowed));
    target = *value;
    return true;
  };
}

CLI::callback_t parsed_size(std::size_t& target) {
  return [&target](const CLI::results_t& words) {
    const auto value = parse_byte_size(words.front());
    if (value) target = *value;
    return value.has_value();
  };
}

void declare(CLI::App& app, Options& options, std::string& operation, std::string& pin) {
  app.add_option("OP", operation, "operation:" + operation_list())->required();
  auto* procs =
      app.add_option("--procs", options.procs, "start N processes on this host")->check(CLI::Range(1, 4096));
  app.add_option("--threads", options.threads, "run N threads of this process")
      ->check(CLI::Range(1, 4096))
      ->excludes(procs);
  app.add_option("-b,--min-bytes", parsed_size(options.min_bytes), "smallest size, suffixes K M G (4)");
  app.add_option("-e,--max-bytes", parsed_size(options.max_bytes), "largest size (64M)");
  app.add_option("-f,--factor", options.factor, "from one size to the next")
      ->check(CLI::Range(2, 1 << 30))
      ->capture_default_str();
  app.add_option(
         "-n,--iters", options.iters,
         "timed samples per size (as many as fit into 0.2 s, at least 20); a sample is one operation, or a "
         "batch of short ones, so that reading the clock costs under 1 %")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 32));
  app.add_option("-w,--warmup", options.warmup, "operations before timing")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 32))
      ->capture_default_str();
  const std::string dtypes = names(kDTypeCount, dtype_name), redops = names(kReduceOpCount, reduce_op_name);
  app.add_option("-d,--dtype", parsed("--dtype", options.dtype, parse_dtype, dtypes), dtypes + " (f32)");
  app.add_option("-o,--redop", parsed("--redop", options.redop, parse_reduce_op, redops), redops + " (sum)");
  app.add_option("-r,--root", options.root, "root of broadcast, reduce, gather and scatter")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("-a,--algo", options.algorithm, "algorithm of the collective, as the configuration key OP.algorithm takes it")
      ->capture_default_str();
  app.add_option("-c,--check", options.check, "0|1: compare every element with the expected one (1)");
  app.add_flag("--out-of-place", options.out_of_place, "all_reduce and reduce: separate input and output");
  app.add_flag(
      "--in-place", options.in_place,
      "stream: the producer stores into the slot and the consumer sums there, instead of copies from and to "
      "user buffers");
  app.add_flag("--heap", options.heap, "user buffers in the heap, where peers reach them without staging");
  app.add_option("--inflight", options.inflight,
                 "keep that many asynchronous operations in flight instead of blocking calls (0: blocking)")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  app.add_option(
         "--groups", options.groups,
         "split the ranks into that many groups (rank r into group r mod K) that run at the same time")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option(
      "--pin", pin,
      "1 (default): one rank per core if there are as many cores; 0: leave ranks alone; or a CPU list such "
      "as 0,2-5, whose CPUs the ranks take in turn (0,0: all ranks on CPU 0)");
  app.add_option("--json", options.json, "file for one JSON object per row; - for standard output");
  app.add_option("--csv", options.csv, "file for comma-separated rows; - for standard output");
  app.set_version_flag("--version", "slipring-perf " SLIPRING_VERSION);
  app.footer(
      "Without --procs and --threads it joins the job of its environment (slipring-run -n N slipring-perf "
      "OP).\n"
      "Times are medians in microseconds, each of the slowest rank; bandwidths are in 10^9 bytes per "
      "second.\n"
      "Exit status: 0, 1 when an element was wrong or the job failed, 2 for a wrong command line.");
}

/// What CLI11 cannot check alone. Empty if all is well.
std::string contradiction(const Options& options) {
  const OperationInfo& info = *options.operation;
  if (options.min_bytes > options.max_bytes) {
    return fmt::format("--min-bytes {} is above --max-bytes {}", options.min_bytes, options.max_bytes);
  }
  if (options.json == "-" && options.csv == "-") return "--json - and --csv - cannot share standard output";
  if (options.algorithm != "auto" && info.algorithm_key.empty()) {
    return fmt::format("{} has no algorithms to choose from with --algo", info.name);
  }
  if (info.reduces && !is_reducible(options.dtype)) {
    return fmt::format("{} is carried but not reduced; --dtype of {} is one of {}", dtype_name(options.dtype),
                       info.name, names(kDTypeCount, dtype_name, is_reducible));
  }
  if (options.out_of_place && !info.has_out_of_place_form)
    return fmt::format("{} has no --out-of-place form", info.name);
  if (options.inflight > 0 && !info.has_asynchronous_form) return fmt::format("{} has no asynchronous form for --inflight", info.name);
  if (options.in_place && !info.has_in_place_form) return fmt::format("{} has no --in-place form", info.name);
  return {};
}

}  // namespace

std::variant<Options, EarlyExit> parse_options(int argc, const char* const* argv) {
  Options options;
  std::string operation, pin = "1";
  CLI::App app("Measures and checks one operation over a range of sizes.", "slipring-perf");
  declare(app, options, operation, pin);
  try {
    app.parse(argc, argv);
    options.operation = find_operation(operation);
    if (!options.operation) {
      throw CLI::ValidationError(
          "OP", fmt::format("there is no operation {}; choose from{}", operation, operation_list()));
    }
    const auto request = parse_pin_request(pin);
    if (!request)
      throw CLI::ValidationError("--pin", fmt::format("{} is neither 0, 1 nor a list of CPUs", pin));
    options.pin = *request;
    const std::string problem = contradiction(options);
    if (!problem.empty()) throw CLI::ValidationError(problem);
  } catch (const CLI::ParseError& problem) {
    return EarlyExit{app.exit(problem) == 0 ? 0 : kBadUsage};
  }
  return options;
}

std::vector<std::string> rank_arguments(int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--procs") {
      ++i;  // and its value
    } else if (!word.starts_with("--procs=")) {
      arguments.emplace_back(word);
    }
  }
  return arguments;
}

}  // namespace slipring::tools::perf
