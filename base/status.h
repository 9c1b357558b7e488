// How the engine makes and passes Status values: formatted construction and early return.
#pragma once

#include <fmt/format.h>

#include "slipring/status.h"

namespace slipring::base {

template <class... Args>
[[gnu::cold]] Status error(StatusCode code, fmt::format_string<Args...> text, Args&&... args) {
  return Status(code, fmt::format(text, std::forward<Args>(args)...));
}

/// A failed system call: "<what>: <strerror> (errno N)"; `error_number` is errno as saved by the caller.
[[gnu::cold]] Status errno_error(int error_number, std::string_view what);

}  // namespace slipring::base
