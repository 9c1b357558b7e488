// Whether this process is a forked child of the one that made an object. A child inherits mappings and objects, but
// not its parent's place among the ranks: what it wrote to shared memory would speak in the parent's name. Any
// thread; costs one load of a line that never changes.
#pragma once

#include <cstdint>

namespace slipring::base {

/// Counts the forks between the first process and this one.
std::uint32_t fork_generation() noexcept;

}  // namespace slipring::base
