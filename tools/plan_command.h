// `slipring-info plan`: draws and costs a collective's plan, or lists the algorithms.
#pragma once

#include <CLI/CLI.hpp>

namespace slipring::tools {

/// Adds the subcommand; its callback prints, and throws std::runtime_error with a sentence on a bad request.
void add_plan_command(CLI::App& app);

}  // namespace slipring::tools
