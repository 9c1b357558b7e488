#include "base/fork_generation.h"

#include <pthread.h>

namespace slipring::base {
namespace {

std::uint32_t generation = 0;  // changed only in a child of fork, while it has one thread

[[maybe_unused]] const int registered = ::pthread_atfork(nullptr, nullptr, [] { ++generation; });

}  // namespace

std::uint32_t fork_generation() noexcept { return generation; }

}  // namespace slipring::base
