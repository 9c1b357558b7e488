// slipring-run: starts a program as the N ranks of a job on this host. All it does is in engine/spawn.h.
#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/spawn.h"

namespace {

using slipring::engine::RunOptions;
using slipring::engine::RunStore;

// Exit statuses of a launcher that failed itself, as shells and env(1) use them.
constexpr int kCannotStart = 127;
constexpr int kBadUsage = 2;

void say(std::string_view sentence) {
  // One write, so that lines of ranks do not mix into it.
  const std::string line = fmt::format("slipring-run: {}\n", sentence);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

std::chrono::milliseconds to_ms(double seconds) {
  return std::chrono::milliseconds(static_cast<long>(std::ceil(seconds * 1000)));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Starts PROGRAM as the N ranks of a job on this host.");
  app.set_version_flag("--version", "slipring-run " SLIPRING_VERSION);
  app.footer(
      "The exit status is that of the rank that failed first (128 + signal if it was killed), 124 after\n"
      "--timeout, 127 if the program could not be started, and 0 if all ranks exited with 0.\n"
      "Example: slipring-run -n 4 --label ./program --its-option value");
  app.prefix_command();  // options end at the program's name: the rest is the program's own

  RunOptions options;
  double timeout_s = 0;
  double grace_s = 5;
  bool no_kill = false;
  std::vector<std::string> variables;
  std::string store = "tcp";
  app.add_option("-n,--ranks", options.size, "number of ranks")->required()->check(CLI::Range(1, 4096));
  app.add_option("--store", store,
                 "where the ranks meet: tcp (on loopback) or file (in a directory of its own)")
      ->check(CLI::IsMember({"tcp", "file"}))
      ->capture_default_str();
  app.add_option("--timeout", timeout_s, "end the job after this many seconds; 0: never")
      ->check(CLI::Range(0.0, 1e9));
  app.add_option("--grace", grace_s, "seconds between asking a rank to end and killing it")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  app.add_option("--env", variables, "KEY=VALUE to add to every rank's environment; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  app.add_flag("--label", options.label, "put [rank] before each line of output");
  app.add_flag("--no-kill", no_kill, "let the other ranks go on when one fails");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem) == 0 ? 0 : kBadUsage;
  }

  std::vector<std::string> command = app.remaining();
  if (!command.empty() && command.front() == "--") command.erase(command.begin());
  if (command.empty()) {
    say("no program given; usage: slipring-run -n N PROGRAM ARGUMENTS...");
    return kBadUsage;
  }
  // Options of the launcher that it does not know look like a program that starts with a dash.
  if (command.front().starts_with('-')) {
    say(fmt::format("unknown option {}; see slipring-run --help, and write ./{} for a program of that name",
                    command.front(), command.front()));
    return kBadUsage;
  }
  for (const std::string& variable : variables) {
    const std::size_t equals = variable.find('=');
    if (equals == std::string::npos) {
      say(fmt::format("--env {} has no =; write --env KEY=VALUE", variable));
      return kBadUsage;
    }
    options.environment.emplace_back(variable.substr(0, equals), variable.substr(equals + 1));
  }
  options.program = command.front();
  options.arguments.assign(command.begin() + 1, command.end());
  options.store = store == "file" ? RunStore::file : RunStore::tcp;
  options.timeout = to_ms(timeout_s);
  options.grace = to_ms(grace_s);
  options.end_others = !no_kill;
  options.report = say;

  slipring::Result<int> status = slipring::engine::run_ranks(options);
  if (status) return *status;
  say(status.status().message());
  return kCannotStart;
}
