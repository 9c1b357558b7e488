// GroupHello: what a rank tells the others through the store when a group forms. Text (JSON) with checked fields;
// the store has authenticated who wrote it, so a bad one means another version, not an attack.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/liveness.h"
#include "slipring/status.h"

namespace slipring::engine {

struct GroupHello {
  std::string error;     ///< why this rank cannot take part; everything else is empty then
  std::string settings;  ///< the configuration on which the ranks must agree, as text
  base::ProcessId process;
  std::string pid_namespace;  ///< in which the process id means something
  std::vector<int> cpus;
  std::vector<int> domains;
  bool membarrier = false;
  std::string segment;   ///< address
  std::string heap;      ///< address, empty without a heap
  std::string arena;     ///< address, empty if no groups can be made

  std::string encode() const;
  static Result<GroupHello> decode(std::string_view text);
};

/// Whether some rank must share its CPU with another one: more ranks than CPUs, or two tied to the same one.
bool ranks_share_cpus(const std::vector<GroupHello>& hellos);

}  // namespace slipring::engine
