#include "tools/perf/resident_memory.h"

#include <cstdio>
#include <fstream>
#include <string>

namespace slipring::tools::perf {

ResidentMemory resident_memory() {
  ResidentMemory memory;
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string line; std::getline(file, line);) {
    long long kib = 0;
    if (std::sscanf(line.c_str(), "Pss_Anon: %lld kB", &kib) == 1) memory.private_bytes = kib * 1024;
    if (std::sscanf(line.c_str(), "Pss_Shmem: %lld kB", &kib) == 1) memory.segment_bytes = kib * 1024;
  }
  return memory;
}

}  // namespace slipring::tools::perf
