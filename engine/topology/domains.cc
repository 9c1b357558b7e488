#include "engine/topology/domains.h"

#include <hwloc.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>

#include "base/status.h"

namespace slipring::engine {
namespace {

struct FreeTopology {
  void operator()(hwloc_topology_t topology) const noexcept { hwloc_topology_destroy(topology); }
};
using Topology = std::unique_ptr<hwloc_topology, FreeTopology>;

Topology load_topology() {
  hwloc_topology_t made = nullptr;
  if (hwloc_topology_init(&made) != 0) return nullptr;
  Topology topology(made);
  // Cores and caches of the whole machine; no devices, whose discovery takes long.
  hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_flags(made, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (hwloc_topology_load(made) != 0) return nullptr;
  return topology;
}

/// Number of the object of `type` that all of `cpus` belong to; -1 if there is none.
int containing(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_const_cpuset_t cpus) {
  for (hwloc_obj_t object = nullptr; (object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr;)
    if (object->cpuset != nullptr && hwloc_bitmap_isincluded(cpus, object->cpuset)) return static_cast<int>(object->logical_index);
  return -1;
}

/// The members of each domain at one level, if that level is of use.
std::optional<std::vector<std::vector<int>>> members_at(std::size_t level, std::span<const Domains> by_rank) {
  std::map<int, std::vector<int>> members;
  for (std::size_t r = 0; r < by_rank.size(); ++r) {
    if (by_rank[r].size() <= level || by_rank[r][level] < 0) return std::nullopt;
    members[by_rank[r][level]].push_back(static_cast<int>(r));
  }
  if (members.size() < 2 || members.size() == by_rank.size()) return std::nullopt;
  std::vector<std::vector<int>> domains;
  for (auto& [number, ranks] : members) domains.push_back(std::move(ranks));
  std::sort(domains.begin(), domains.end());
  return domains;
}

}  // namespace

Domains found_domains(std::span<const int> cpus) {
  Domains domains(3, -1);
  const Topology topology = load_topology();
  if (!topology) return domains;
  const std::unique_ptr<hwloc_bitmap_s, void (*)(hwloc_bitmap_t)> set(hwloc_bitmap_alloc(), hwloc_bitmap_free);
  for (const int cpu : cpus) hwloc_bitmap_set(set.get(), static_cast<unsigned>(cpu));
  domains[0] = containing(topology.get(), HWLOC_OBJ_L3CACHE, set.get());
  domains[1] = containing(topology.get(), HWLOC_OBJ_NUMANODE, set.get());
  domains[2] = containing(topology.get(), HWLOC_OBJ_PACKAGE, set.get());
  return domains;
}

Result<std::vector<int>> parse_domain_sizes(std::string_view text) {
  std::vector<int> sizes;
  for (const char* at = text.data(); at != text.data() + text.size() + 1;) {
    const char* const end = std::find(at, text.data() + text.size(), ',');
    int size = 0;
    const auto [stop, problem] = std::from_chars(at, end, size);
    if (problem != std::errc() || stop != end || size < 1 || (!sizes.empty() && size % sizes.back() != 0))
      return base::error(StatusCode::invalid_argument, "topology.domains \"{}\" must be auto, none, or sizes such as 4,8 of which each "
                         "is a multiple of the one before it", text);
    sizes.push_back(size);
    at = end + 1;
  }
  return sizes;
}

Domains declared_domains(std::span<const int> sizes, int job_rank) {
  Domains domains;
  for (const int size : sizes) domains.push_back(job_rank / size);
  return domains;
}

std::optional<DomainSplit> split_by_domains(int rank, std::span<const Domains> by_rank) {
  const std::size_t levels = by_rank.empty() ? 0 : by_rank.front().size();
  std::optional<std::vector<std::vector<int>>> domains;
  for (std::size_t level = 0; level < levels && !domains; ++level) domains = members_at(level, by_rank);
  if (!domains) return std::nullopt;

  DomainSplit split;
  split.domain_count = static_cast<int>(domains->size());
  split.domain_of.resize(by_rank.size());
  split.index_of.resize(by_rank.size());
  split.even = true;
  for (std::size_t d = 0; d < domains->size(); ++d) {
    const std::vector<int>& members = (*domains)[d];
    split.even = split.even && members.size() == domains->front().size();
    for (std::size_t i = 0; i < members.size(); ++i) {
      split.domain_of[static_cast<std::size_t>(members[i])] = static_cast<int>(d);
      split.index_of[static_cast<std::size_t>(members[i])] = static_cast<int>(i);
    }
  }
  const auto index = static_cast<std::size_t>(split.index_of[static_cast<std::size_t>(rank)]);
  split.inside = (*domains)[static_cast<std::size_t>(split.domain_of[static_cast<std::size_t>(rank)])];
  if (split.even || index == 0)
    for (const std::vector<int>& members : *domains) split.across.push_back(members[index]);
  return split;
}

}  // namespace slipring::engine
