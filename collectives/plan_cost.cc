#include "collectives/plan_cost.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <vector>

#include "collectives/plan_walk.h"

namespace slipring::collectives {

namespace {

/// Event times of one lane. Every cursor moves as far as it can before the next, which is legal because what
/// an event costs does not depend on when it is computed.
class TimedLane {
 public:
  TimedLane(const Plan& plan, int lane, const ChunkGrid& grid, std::size_t element_bytes,
            const LinkModel& link, std::span<const int> node_of_rank)
      : element_bytes_(element_bytes), link_(link), node_of_rank_(node_of_rank), grid_(grid) {
    for (int r = 0; r < plan.ranks(); ++r) {
      Rank& rank = ranks_.emplace_back(plan.steps(r, lane));
      rank.followed.resize(rank.steps.size());
      for (const Step& step : rank.steps) {
        if (step.after >= 0) ++rank.followed[static_cast<std::size_t>(step.after)].users;
      }
    }
    // Cursors point into their rank, so they are set once the ranks stay where they are.
    for (Rank& rank : ranks_) {
      rank.sender = Cursor(rank.steps, rank.own.sends, grid);
      rank.receiver = Cursor(rank.steps, rank.own.receives, grid);
    }
  }

  void run(PlanCost& cost, std::vector<std::size_t>& sent_bytes, std::vector<std::size_t>& node_bytes) {
    std::vector<int> candidates;
    for (int r = static_cast<int>(ranks_.size()) - 1; r >= 0; --r) candidates.push_back(r);
    while (!candidates.empty()) {
      const int r = candidates.back();
      candidates.pop_back();
      for (bool moved = true; moved;) {
        moved = false;
        while (receive(r)) moved = true;
        for (int peer = send(r, cost, sent_bytes, node_bytes); peer >= 0; peer = send(r, cost, sent_bytes, node_bytes)) {
          moved = true;
          candidates.push_back(peer);
        }
      }
    }
    for (const Rank& rank : ranks_) cost.time_us = std::max({cost.time_us, rank.sent_at, rank.received_at});
  }

 private:
  /// When the chunks of a step that others follow were done; dropped once all have asked.
  struct Followed {
    struct Done {
      double at;
      int users;
    };
    int users = 0;
    std::unordered_map<std::size_t, Done> done;  ///< by chunk
  };
  struct Rank {
    explicit Rank(const std::vector<Step>& list) : steps(list), own(list) {}
    const std::vector<Step>& steps;
    CursorSteps own;
    Cursor sender, receiver;
    std::vector<Followed> followed;  ///< per step
    double sent_at = 0, received_at = 0;
  };

  std::deque<double>& channel(int from, int to) {
    return arrivals_[(static_cast<std::uint64_t>(from) << 32) | static_cast<std::uint64_t>(to)];
  }
  std::size_t chunk_bytes(const Cursor& cursor) const {
    return grid_.chunk_size(cursor.step().block, cursor.position().chunk) * element_bytes_;
  }
  static double followed_at(Rank& rank, const Step& step, std::size_t chunk) {
    if (step.after < 0) return 0;
    Followed& followed = rank.followed[static_cast<std::size_t>(step.after)];
    const auto found = followed.done.find(chunk);
    const double at = found->second.at;
    if (--found->second.users == 0) followed.done.erase(found);
    return at;
  }
  static void note(Rank& rank, const Position& at, double time) {
    Followed& followed = rank.followed[static_cast<std::size_t>(at.step)];
    if (followed.users > 0) followed.done.emplace(at.chunk, Followed::Done{time, followed.users});
  }

  int send(int r, PlanCost& cost, std::vector<std::size_t>& sent_bytes, std::vector<std::size_t>& node_bytes) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    if (rank.sender.at_end()) return -1;
    const Position at = rank.sender.position();
    const Step& step = rank.sender.step();
    if (step.after >= 0 && !rank.receiver.passed(step.after, at)) return -1;
    const std::size_t bytes = chunk_bytes(rank.sender);
    const double begin = std::max(rank.sent_at, followed_at(rank, step, at.chunk));
    const bool leaves = !node_of_rank_.empty() && node_of_rank_[static_cast<std::size_t>(r)] != node_of_rank_[static_cast<std::size_t>(step.peer)];
    rank.sent_at = begin + (leaves ? link_.node_alpha_us : link_.alpha_us) +
                   (leaves ? link_.node_beta_us_per_byte : link_.beta_us_per_byte) * static_cast<double>(bytes);
    if (leaves) {
      cost.node_bytes += bytes;
      node_bytes[static_cast<std::size_t>(node_of_rank_[static_cast<std::size_t>(r)])] += bytes;
    }
    channel(r, step.peer).push_back(rank.sent_at);
    note(rank, at, rank.sent_at);
    ++cost.messages;
    cost.bytes += bytes;
    sent_bytes[static_cast<std::size_t>(r)] += bytes;
    rank.sender.advance();
    return step.peer;
  }

  bool receive(int r) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    if (rank.receiver.at_end()) return false;
    const Position at = rank.receiver.position();
    const Step& step = rank.receiver.step();
    if (step.after >= 0 && !rank.sender.passed(step.after, at)) return false;
    double begin = rank.received_at;
    if (step.kind != StepKind::copy) {
      std::deque<double>& messages = channel(step.peer, r);
      if (messages.empty()) return false;
      begin = std::max(begin, messages.front());
      messages.pop_front();
    }
    begin = std::max(begin, followed_at(rank, step, at.chunk));
    rank.received_at = begin + link_.gamma_us_per_byte * static_cast<double>(chunk_bytes(rank.receiver));
    note(rank, at, rank.received_at);
    rank.receiver.advance();
    return true;
  }

  std::size_t element_bytes_;
  LinkModel link_;
  std::span<const int> node_of_rank_;
  ChunkGrid grid_;
  std::deque<Rank> ranks_;
  std::unordered_map<std::uint64_t, std::deque<double>> arrivals_;
};

}  // namespace

PlanCost plan_cost(const Plan& plan, std::size_t count, std::size_t element_bytes, std::size_t chunk_bytes,
                   int window, const LinkModel& link, std::span<const int> node_of_rank) {
  PlanCost cost;
  if (plan.operation() == Operation::all_to_all) count *= static_cast<std::size_t>(plan.ranks());  // what each of them gives
  std::vector<std::size_t> node_bytes(node_of_rank.empty() ? 1 : static_cast<std::size_t>(*std::max_element(node_of_rank.begin(), node_of_rank.end())) + 1);
  std::vector<std::size_t> sent_bytes(static_cast<std::size_t>(plan.ranks()), 0);
  const std::size_t chunk_elements = std::max<std::size_t>(1, chunk_bytes / element_bytes);
  const Partition shares(count, plan.lanes());
  for (int lane = 0; lane < plan.lanes(); ++lane) {
    const ChunkGrid grid(0, shares.size(lane), plan.blocks(), chunk_elements, window);
    TimedLane(plan, lane, grid, element_bytes, link, node_of_rank).run(cost, sent_bytes, node_bytes);
  }
  cost.most_sent_bytes = *std::max_element(sent_bytes.begin(), sent_bytes.end());
  cost.most_node_bytes = *std::max_element(node_bytes.begin(), node_bytes.end());
  return cost;
}

}  // namespace slipring::collectives
