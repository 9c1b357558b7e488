// Domains: how the ranks of a node lie in its hierarchy: which of them share an outer cache, a NUMA node, a socket.
//
// A rank has one number per level, innermost first; ranks with equal numbers share that part of the machine, -1 is
// unknown. Far links are spared by working inside a domain first and between domains with few ranks. Pure but for
// found_domains; any thread.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slipring/status.h"

namespace slipring::engine {

using Domains = std::vector<int>;

/// By hwloc, for a rank that may run on `cpus`: outermost cache, NUMA node, package. -1 where the CPUs span several.
Domains found_domains(std::span<const int> cpus);

/// "4,8": neighbouring ranks of the job share the innermost level by fours and the next by eights. Each size is at least
/// 1 and a multiple of the one before it.
Result<std::vector<int>> parse_domain_sizes(std::string_view text);
Domains declared_domains(std::span<const int> sizes, int job_rank);

/// A rank's place at the innermost level that divides its group into several domains, of which one has several ranks.
struct DomainSplit {
  std::vector<int> inside;    ///< ranks of the group in the own domain, ascending
  std::vector<int> across;    ///< the ranks at the own index of each domain, by domain; empty if the domains are uneven and the own index is not 0
  std::vector<int> domain_of; ///< by rank of the group: number of its domain, by first rank
  std::vector<int> index_of;  ///< by rank of the group: its index in its domain
  bool even = false;          ///< all domains have equally many ranks

  int domain_count = 0;
};

/// nullopt where there is nothing to gain: one domain, or each rank in one of its own, at every level.
std::optional<DomainSplit> split_by_domains(int rank, std::span<const Domains> by_rank);

}  // namespace slipring::engine
