#include "collectives/plan_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <queue>

namespace slipring::collectives {
namespace {

constexpr int kColumn = 90, kRow = 46, kTop = 56, kLeft = 70;

/// One rank's two cursors, each through its own steps in order.
struct Walk {
  std::vector<std::int32_t> own;
  std::size_t next = 0;
  int time = 0;
};

}  // namespace

std::vector<std::vector<int>> plan_rounds(const Plan& plan, int lane) {
  const int ranks = plan.ranks();
  std::vector<std::vector<int>> rounds(static_cast<std::size_t>(ranks));
  std::vector<Walk> sends(static_cast<std::size_t>(ranks)), receives(static_cast<std::size_t>(ranks));
  std::map<std::pair<int, int>, std::queue<int>> under_way;  // arrival times by sender and receiver
  for (int r = 0; r < ranks; ++r) {
    const auto i = static_cast<std::size_t>(r);
    const std::vector<Step>& steps = plan.steps(r, lane);
    rounds[i].assign(steps.size(), -1);
    for (std::size_t s = 0; s < steps.size(); ++s)
      (steps[s].kind == StepKind::send ? sends : receives)[i].own.push_back(static_cast<std::int32_t>(s));
  }
  const auto advance = [&](int r, bool sending) {
    const auto i = static_cast<std::size_t>(r);
    Walk& walk = (sending ? sends : receives)[i];
    if (walk.next == walk.own.size()) return false;
    const auto index = static_cast<std::size_t>(walk.own[walk.next]);
    const Step& step = plan.steps(r, lane)[index];
    if (step.after >= 0 && rounds[i][static_cast<std::size_t>(step.after)] < 0) return false;
    int at = walk.time;
    if (step.after >= 0) at = std::max(at, rounds[i][static_cast<std::size_t>(step.after)] + (sending ? 1 : 0));
    if (step.kind == StepKind::receive || step.kind == StepKind::receive_reduce) {
      auto& arrivals = under_way[{step.peer, r}];
      if (arrivals.empty()) return false;
      at = std::max(at, arrivals.front());
      arrivals.pop();
    }
    rounds[i][index] = at;
    walk.time = sending ? at + 1 : at;  // a link carries one message a round
    if (sending) under_way[{r, step.peer}].push(at);
    ++walk.next;
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int r = 0; r < ranks; ++r)
      for (const bool sending : {true, false})
        while (advance(r, sending)) moved = true;
  }
  return rounds;
}

std::string draw_plan_svg(const Plan& plan, std::span<const int> node_of_rank) {
  const std::vector<std::vector<int>> rounds = plan_rounds(plan, 0);
  const auto node = [&](int rank) { return node_of_rank.empty() ? 0 : node_of_rank[static_cast<std::size_t>(rank)]; };
  int last = 0;
  for (const auto& of_rank : rounds)
    for (const int round : of_rank) last = std::max(last, round);
  const auto x = [](int rank) { return kLeft + rank * kColumn; };
  const auto y = [](double round) { return kTop + static_cast<int>(round * kRow); };
  const int width = x(plan.ranks()) , height = y(last + 2);

  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<title>{2} {3}, {4} ranks</title>\n"
      "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">"
      "<path d=\"M0,0 L8,4 L0,8 z\" fill=\"context-stroke\"/></marker></defs>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n"
      "<text x=\"8\" y=\"18\" font-weight=\"bold\">{2} {3}, {4} ranks: copied blue, reduced red{5}</text>\n",
      width, height, operation_name(plan.operation()), plan.algorithm(), plan.ranks(), node_of_rank.empty() ? "" : ", between nodes thick");
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const char* shade = node(rank) % 2 == 0 ? "#f2f2f2" : "#e2e8f0";
    svg += fmt::format("<rect class=\"rank\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n", x(rank) - kColumn / 2 + 2, 26,
                       kColumn - 4, height - 34, shade);
    svg += fmt::format("<text x=\"{}\" y=\"42\" text-anchor=\"middle\">rank {}</text>\n", x(rank), rank);
  }
  for (int round = 0; round <= last; ++round)
    svg += fmt::format("<text x=\"4\" y=\"{}\" fill=\"#666666\">{}</text>\n", y(round + 0.5), round + 1);

  // An arrow belongs to the send; whether it reduces, its receive knows: the k-th of the pair.
  std::map<std::pair<int, int>, std::queue<StepKind>> taken;
  for (int rank = 0; rank < plan.ranks(); ++rank)
    for (const Step& step : plan.steps(rank, 0))
      if (step.kind == StepKind::receive || step.kind == StepKind::receive_reduce) taken[{step.peer, rank}].push(step.kind);
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const std::vector<Step>& steps = plan.steps(rank, 0);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const Step& step = steps[i];
      if (step.kind != StepKind::send) continue;
      auto& kinds = taken[{rank, step.peer}];
      const bool reduces = !kinds.empty() && kinds.front() == StepKind::receive_reduce;
      if (!kinds.empty()) kinds.pop();
      const bool crosses = node(rank) != node(step.peer);
      const int round = rounds[static_cast<std::size_t>(rank)][i];
      svg += fmt::format("<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{}\" stroke-width=\"{}\" marker-end=\"url(#tip)\"/>\n",
                         crosses ? "message crossing" : "message", x(rank), y(round + 0.2), x(step.peer), y(round + 0.85),
                         reduces ? "#c0392b" : "#2563eb", crosses ? 3 : 1.5);
      svg += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"9\" fill=\"#444444\">b{}</text>\n", (3 * x(rank) + x(step.peer)) / 4,
                         y(round + 0.36) - 2, step.block);
    }
  }
  return svg + "</svg>\n";
}

}  // namespace slipring::collectives
