#include "tools/perf/words.h"

#include <algorithm>

// One clone per instruction set, chosen when the program is loaded. The sanitizers' runtimes are not ready
// that early.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PERF_FOR_EACH_CPU [[gnu::target_clones("avx512f", "avx2", "default")]]
#else
#define PERF_FOR_EACH_CPU
#endif

namespace slipring::tools::perf {

PERF_FOR_EACH_CPU void fill_words(std::span<std::byte> bytes, Word value) {
  std::fill_n(reinterpret_cast<Word*>(bytes.data()), bytes.size() / sizeof(Word), value);
}

PERF_FOR_EACH_CPU Word sum_words(std::span<const std::byte> bytes) {
  // Integers, because a compiler may not reorder float additions: the loop would run at the speed of one
  // chain of them.
  const auto* words = reinterpret_cast<const Word*>(bytes.data());
  Word sum = 0;
  for (std::size_t i = 0; i < bytes.size() / sizeof(Word); ++i) sum += words[i];
  return sum;
}

}  // namespace slipring::tools::perf
