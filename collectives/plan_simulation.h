// Symbolic execution of one lane of a plan: buffers hold expressions over the ranks' inputs, not numbers.
//
// Expressions are interned, so that equal numbers mean equal trees. A LaneSimulation is one run: one chunk
// count, one placement, one schedule; it stops at the first fault. It expects a plan that has passed the
// static rules of check_plan. Not for concurrent use; no failure besides PlanFault.
#pragma once

#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectives/plan.h"
#include "collectives/plan_checker.h"
#include "collectives/plan_walk.h"

namespace slipring::collectives {

/// All expressions of one check. Numbers 0 .. ranks-1 are the ranks' inputs.
class ExpressionTable {
 public:
  static constexpr std::int32_t kUndefined = -1;

  explicit ExpressionTable(int ranks);
  std::int32_t combine(std::int32_t left, std::int32_t right);
  std::int32_t finish(std::int32_t value);

  bool overlap(std::int32_t a, std::int32_t b) const;
  bool is_finished(std::int32_t value) const { return nodes_[static_cast<std::size_t>(value)].finished; }
  int contributions(std::int32_t value) const;
  /// E.g. "((0 1) 2)!", with "!" for finished.
  std::string text(std::int32_t value) const;

 private:
  struct Node {
    std::int32_t left;   ///< -1 in a rank's input
    std::int32_t right;  ///< -1 in a finished value
    bool finished;
  };
  std::int32_t intern(Node node);

  std::size_t words_;
  std::vector<Node> nodes_;
  std::vector<std::uint64_t> ranks_of_;  ///< words_ per node: which inputs it contains
  std::unordered_map<std::uint64_t, std::int32_t> numbers_;
};

enum class ScheduleKind : std::uint8_t { round_robin, greedy_forward, greedy_backward, random };

struct SimulationCase {
  std::size_t lane_chunks = 1;  ///< elements of the lane, with chunks of one element
  int window = 4;
  bool in_place = true;
  ScheduleKind schedule = ScheduleKind::round_robin;
  std::uint64_t seed = 0;  ///< of ScheduleKind::random
  bool check_hazards = true;
};

class LaneSimulation {
 public:
  LaneSimulation(const Plan& plan, int lane, const SimulationCase& run, ExpressionTable& expressions);

  /// Runs the schedule to its end.
  PlanCheck run();
  std::size_t chunks(int block) const { return grid_.chunks(block); }
  std::int32_t output(int rank, int block, std::size_t chunk) const {
    return ranks_[static_cast<std::size_t>(rank)].output[cell(block, chunk)];
  }

 private:
  using Clock = std::vector<std::uint32_t>;  ///< per cursor: how many of its events are known to lie before

  struct Channel {
    bool full = false;
    std::int32_t value = ExpressionTable::kUndefined;
    Clock clock;
  };
  struct SavedClock {
    Clock clock;
    int users = 0;
  };
  struct RankState {
    explicit RankState(const std::vector<Step>& list) : steps(list), own(list) {}
    const std::vector<Step>& steps;
    CursorSteps own;
    Cursor sender, receiver;
    std::vector<std::int32_t> channel;  ///< per step
    /// Per step: latest earlier step of the other cursor on the same memory, or -1.
    std::vector<std::int32_t> conflict;
    std::vector<int> followers;  ///< per step: how many name it in `after`
    std::vector<std::int32_t> input, output;
    Clock sender_clock, receiver_clock;
    std::vector<std::uint32_t> ordinal;  ///< per step and chunk: number of its event on its cursor, 0 before
    std::vector<std::int32_t> saved;     ///< per step and chunk: index into saved_, or -1
  };

  std::size_t cell(int block, std::size_t chunk) const {
    return static_cast<std::size_t>(block) * max_chunks_ + chunk;
  }
  std::size_t event(const Position& at) const {
    return static_cast<std::size_t>(at.step) * max_chunks_ + at.chunk;
  }
  void connect();
  void find_conflicts(RankState& rank);
  bool fire_send(int rank);
  bool fire_receive(int rank);
  void write_output(int rank, const Step& step, std::int32_t message);
  void record_event(RankState& rank, Cursor& cursor, Clock& clock, std::size_t component);
  void follow(RankState& rank, const Step& step, const Position& at, Clock& clock);
  void check_hazard(int rank, const Position& at, const Clock& clock, std::size_t other_component);
  bool fail(PlanFault fault, int rank, const Position& at, const std::string& why);
  void wake(int cursor);
  int take(std::mt19937_64& random);
  PlanCheck stuck() const;

  const Plan& plan_;
  const SimulationCase run_;
  ExpressionTable& expressions_;
  ChunkGrid grid_;
  std::size_t max_chunks_;
  std::vector<RankState> ranks_;
  std::vector<Channel> channels_;
  std::vector<SavedClock> saved_;
  std::vector<std::int32_t> free_saved_;
  std::deque<int> candidates_;   ///< cursors that have not been tried since something may have enabled them
  std::vector<bool> is_listed_;  ///< per cursor: is among the candidates
  PlanCheck result_;
};

}  // namespace slipring::collectives
