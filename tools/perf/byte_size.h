// Sizes as people type them: "4096", "4K", "16M", "1G" (powers of 1024), and the sizes that a sweep visits.
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace slipring::tools::perf {

/// nullopt when it is not a size, or too large to be one.
std::optional<std::size_t> parse_byte_size(std::string_view text);

/// min, min*factor, ... up to max, each rounded down to a multiple of `element_bytes`, without repetition. A
/// sweep that starts at 0 continues with one element. factor is at least 2.
std::vector<std::size_t> sweep(std::size_t min_bytes, std::size_t max_bytes, std::size_t factor,
                               std::size_t element_bytes);

}  // namespace slipring::tools::perf
