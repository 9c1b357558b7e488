// Storing and summing 32-bit words, as the two ends of `stream --in-place` do: vectorised for the CPU at
// hand, so that the channel is measured and not these loops. Sums wrap. Pure; any thread. Lengths are whole
// words, 4-byte aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace slipring::tools::perf {

using Word = std::uint32_t;

void fill_words(std::span<std::byte> bytes, Word value);
Word sum_words(std::span<const std::byte> bytes);

}  // namespace slipring::tools::perf
