#include "tools/host_facts.h"

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

namespace slipring::tools {
namespace {

constexpr const char* kUnknown = "unknown";

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) return line.substr(colon + 2);
  }
  return kUnknown;
}

std::string cpuset(const std::optional<cpu_set_t>& cpus) {
  if (!cpus) return kUnknown;
  return fmt::format("{} (CPUs {} of {} online)", cpu_list(*cpus), CPU_COUNT(&*cpus),
                     ::sysconf(_SC_NPROCESSORS_ONLN));
}

/// One clause per cache of the first CPU that this process may use.
std::string caches(const std::optional<cpu_set_t>& cpus) {
  int cpu = 0;
  while (cpus && cpu < CPU_SETSIZE - 1 && !CPU_ISSET(cpu, &*cpus)) ++cpu;
  std::string text;
  for (int index = 0;; ++index) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu{}/cache/index{}/", cpu, index);
    const auto level = first_line(folder + "level");
    if (!level) break;
    fmt::format_to(std::back_inserter(text), "{}L{} {} {} shared by CPUs {}", text.empty() ? "" : ", ",
                   *level, first_line(folder + "type").value_or(kUnknown),
                   first_line(folder + "size").value_or(kUnknown),
                   first_line(folder + "shared_cpu_list").value_or(kUnknown));
  }
  return text.empty() ? kUnknown : text;
}

std::string free_space(const char* path) {
  struct statvfs space {};
  if (::statvfs(path, &space) != 0) return fmt::format("cannot be read: {}", std::strerror(errno));
  const auto bytes = [&](std::uint64_t blocks) { return readable_bytes(blocks * space.f_frsize); };
  return fmt::format("{}, free {}", bytes(space.f_blocks), bytes(space.f_bavail));
}

std::string transparent_huge_pages() {
  const std::string folder = "/sys/kernel/mm/transparent_hugepage/";
  return fmt::format("anonymous {}; shared memory {}", first_line(folder + "enabled").value_or(kUnknown),
                     first_line(folder + "shmem_enabled").value_or(kUnknown));
}

std::string reserved_huge_pages() {
  const std::string folder = "/sys/kernel/mm/hugepages/hugepages-2048kB/";
  const auto total = first_line(folder + "nr_hugepages");
  if (!total) return "none of 2 MiB";
  return fmt::format("{} of 2 MiB, free {}", *total,
                     first_line(folder + "free_hugepages").value_or(kUnknown));
}

}  // namespace

std::string cpu_list(const cpu_set_t& cpus) {
  std::string text;
  for (int first = 0; first < CPU_SETSIZE; ++first) {
    if (!CPU_ISSET(first, &cpus)) continue;
    int last = first;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &cpus)) ++last;
    if (!text.empty()) text += ',';
    text += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
    first = last;
  }
  return text.empty() ? "none" : text;
}

std::string readable_bytes(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double amount = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  while (amount >= 1024 && unit + 1 < std::size(kUnits)) {
    amount /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", amount, kUnits[unit]);
}

std::vector<Fact> host_facts() {
  utsname system{};
  ::uname(&system);
  cpu_set_t affinity;
  CPU_ZERO(&affinity);
  // More CPUs than cpu_set_t holds make the call fail; then the cpuset is unknown.
  std::optional<cpu_set_t> cpus;
  if (::sched_getaffinity(0, sizeof affinity, &affinity) == 0) cpus = affinity;
  return {
      {"host", system.nodename},
      {"kernel", fmt::format("{} {} {}", system.sysname, system.release, system.machine)},
      {"cpu", cpu_model()},
      {"cpuset", cpuset(cpus)},
      {"caches", caches(cpus)},
      {"/dev/shm", free_space("/dev/shm")},
      {"transparent huge pages", transparent_huge_pages()},
      {"reserved huge pages", reserved_huge_pages()},
  };
}

}  // namespace slipring::tools
