#include "tools/perf/resident_memory.h"

#include <cstdio>
#include <fstream>
#include <string>

namespace slipring::tools::perf {

ResidentMemory resident_memory() {
  ResidentMemory memory;
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    long long kib = 0;
    if (std::sscanf(line.c_str(), "VmRSS: %lld kB", &kib) == 1) memory.bytes = kib * 1024;
    if (std::sscanf(line.c_str(), "RssShmem: %lld kB", &kib) == 1) memory.shared_bytes = kib * 1024;
  }
  return memory;
}

}  // namespace slipring::tools::perf
