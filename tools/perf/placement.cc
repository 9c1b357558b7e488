#include "tools/perf/placement.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>

#include "base/status.h"
#include "tools/host_facts.h"

namespace slipring::tools::perf {
namespace {

/// "0,2-5" as the kernel and people write it; nullopt if it is not a list of CPUs.
std::optional<std::vector<int>> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&]() -> std::optional<int> {
    int value = 0;
    const auto [next, problem] = std::from_chars(at, end, value);
    if (problem != std::errc{} || value < 0 || value >= CPU_SETSIZE) return std::nullopt;
    at = next;
    return value;
  };
  for (;;) {
    const auto first = number();
    if (!first) return std::nullopt;
    auto last = first;
    if (at != end && *at == '-') {
      ++at;
      last = number();
    }
    if (!last || *last < *first) return std::nullopt;
    for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
    if (at == end) return cpus;
    if (*at++ != ',') return std::nullopt;
  }
}

/// Which hardware thread of its core a CPU is; 0 when the kernel does not say.
long thread_of_core(int cpu) {
  std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
  std::string text;
  if (!std::getline(file, text)) return 0;
  const auto siblings = parse_cpu_list(text);
  if (!siblings) return 0;
  return std::find(siblings->begin(), siblings->end(), cpu) - siblings->begin();
}

Status move_to(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  if (::sched_setaffinity(0, sizeof set, &set) == 0) return {};
  return base::errno_error(errno, fmt::format("sched_setaffinity to CPUs {}", cpu_list(set)));
}

}  // namespace

std::optional<PinRequest> parse_pin_request(std::string_view text) {
  if (text == "0") return PinRequest{PinRequest::Kind::off, {}};
  if (text == "1") return PinRequest{PinRequest::Kind::one_per_core, {}};
  auto cpus = parse_cpu_list(text);
  if (!cpus) return std::nullopt;
  return PinRequest{PinRequest::Kind::list, std::move(*cpus)};
}

std::vector<int> usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  std::stable_sort(cpus.begin(), cpus.end(),
                   [](int a, int b) { return thread_of_core(a) < thread_of_core(b); });
  return cpus;
}

Status limit_to_listed_cpus(const PinRequest& request) {
  return request.kind == PinRequest::Kind::list ? move_to(request.cpus) : Status();
}

Status pin_rank(const PinRequest& request, int local_rank, int local_size) {
  const auto rank = static_cast<std::size_t>(local_rank);
  if (request.kind == PinRequest::Kind::list) return move_to({request.cpus[rank % request.cpus.size()]});
  if (request.kind == PinRequest::Kind::off) return {};
  const std::vector<int> cpus = usable_cpus();
  if (cpus.size() < static_cast<std::size_t>(local_size)) return {};
  return move_to({cpus[rank]});
}

std::string affinity_text() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return "unknown CPUs";
  return fmt::format("{} {}", CPU_COUNT(&set) == 1 ? "CPU" : "CPUs", cpu_list(set));
}

}  // namespace slipring::tools::perf
