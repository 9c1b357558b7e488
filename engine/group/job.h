// Job: what all communicators of one rank have in common: the ranks that met at the store, their heaps, and the memory
// in which groups of them live. Made when the rank joins; shared by its communicators; immutable but for the arena.
#pragma once

#include <memory>
#include <vector>

#include "base/lent_threads.h"
#include "base/liveness.h"
#include "base/segment.h"
#include "base/wait.h"
#include "collectives/direct/rank_area.h"
#include "collectives/tuning_table.h"
#include "engine/group/group_arena.h"
#include "engine/topology/domains.h"

namespace slipring::engine {

struct JobMember {
  base::ProcessId process;
  /// Null where the process cannot be seen: a rank in another PID namespace is missed by timeout only.
  std::shared_ptr<const base::PeerProcess> liveness;
  std::shared_ptr<base::Segment> arena;  ///< null if the job has none
  Domains domains;                       ///< empty if the hierarchy is not to be followed

  bool gone() const noexcept { return liveness && liveness->gone(); }
};

struct Job {
  int rank = 0;
  std::vector<JobMember> members;  ///< by rank of the job
  collectives::GroupHeaps heaps;   ///< by rank of the job
  std::unique_ptr<GroupArena> arena;
  std::shared_ptr<base::LentThreads> threads;  ///< null: the rank lends none
  std::shared_ptr<const collectives::TuningTable> tuning;
  base::WaitWindows windows;
  bool oversubscribed = false;     ///< some ranks share a CPU
};

}  // namespace slipring::engine
