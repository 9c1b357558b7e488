// slipring-info: what this build is, what this host offers it, and how it is configured.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "base/config.h"
#include "tools/host_facts.h"
#include "tools/plan_command.h"

namespace slipring::tools {
namespace {

/// Transports that this build can make channels with; inproc is shm between threads of one process.
constexpr const char* kTransports = "inproc, shm";

void print_summary() {
  const auto print = [](const std::string& what, const std::string& found) {
    fmt::print("{:<24}{}\n", what, found);
  };
  print("slipring", SLIPRING_VERSION);
  for (const auto& [what, found] : host_facts()) print(what, found);
  print("transports", kTransports);
}

/// 1 and the reason on standard error when the configuration cannot be loaded.
int print_config() {
  const Result<base::Config> config = base::Config::load();
  if (!config) {
    fmt::print(stderr, "slipring-info: {}\n", config.status().to_string());
    return 1;
  }
  // Not through the log, whose level and file are part of what is being looked at.
  for (const std::string& warning : config.value().warnings())
    fmt::print(stderr, "slipring-info: warning: {}\n", warning);
  fmt::print("{}", config.value().to_toml());
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app("What this build of Slipring is, what this host offers it, and how it is configured.",
               "slipring-info");
  app.set_version_flag("--version", std::string("slipring ") + SLIPRING_VERSION);
  app.require_subcommand(0, 1);
  auto* const form = app.add_option_group("form", "instead of the summary of build and host");
  bool config = false;
  bool config_docs = false;
  form->add_flag("--config", config, "every configuration value with meaning and origin, as a config file");
  form->add_flag("--config-docs", config_docs, "reference of all configuration keys, as Markdown");
  form->require_option(0, 1);
  add_plan_command(app);
  CLI11_PARSE(app, argc, argv);

  if (!app.get_subcommands().empty()) return 0;  // its callback has run
  if (config) return print_config();
  if (config_docs) {
    fmt::print("{}", base::config_markdown());
  } else {
    print_summary();
  }
  return 0;
}

}  // namespace
}  // namespace slipring::tools

int main(int argc, char** argv) {
  try {
    const int exit_status = slipring::tools::run(argc, argv);
    // A dump that was cut short by a full disk must not pass for a whole one.
    if (std::fflush(stdout) != 0)
      throw std::system_error(errno, std::generic_category(), "write standard output");
    return exit_status;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "slipring-info: {}\n", failure.what());
    return 1;
  }
}
