// The edge of the public C++ API: a bad Status becomes an Error.
#pragma once

#include <utility>

#include "slipring/status.h"

namespace slipring::engine {

inline void raise_unless_ok(Status status) {
  if (!status.is_ok()) [[unlikely]] throw Error(std::move(status));
}

template <class T>
T value_or_raise(Result<T> result) {
  if (!result.is_ok()) [[unlikely]] throw Error(std::move(result).status());
  return std::move(result).value();
}

}  // namespace slipring::engine
