// RankEnvironment: who this process is in its job and where the job meets.
//
// Each field comes from the API if given there, else from the environment of the first launcher that set one,
// in the order of kLaunchers. Fields left open, half-set, unparsable or contradicting are errors that name
// the variables. Reads the environment (and a token file) once, so it must not run beside setenv(); otherwise
// any thread. A new launcher is one entry in rank_environment.cc.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "slipring/communicator.h"
#include "slipring/status.h"

namespace slipring::engine {

struct RankEnvironment {
  int rank = 0;
  int size = 1;
  std::string store_url;  ///< may be empty if size is 1: nobody to meet
  std::string job_token;  ///< as store_url
  std::string source;     ///< "API", the launcher's name, or "API and slipring-run", for logs
};

/// Value of an environment variable, nullopt if it is not set; tests pass their own.
using EnvironmentLookup = std::function<std::optional<std::string>(const char* name)>;

std::optional<std::string> process_environment(const char* name);

Result<RankEnvironment> rank_environment(const JobOptions& options,
                                         const EnvironmentLookup& lookup = process_environment);

}  // namespace slipring::engine
