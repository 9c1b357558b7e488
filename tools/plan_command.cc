#include "tools/plan_command.h"

#include <fmt/format.h>

#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "collectives/algorithms/algorithm.h"
#include "collectives/plan_cost.h"
#include "collectives/plan_svg.h"
#include "collectives/plan_text.h"

namespace slipring::tools {
namespace {

using namespace collectives;

struct PlanOptions {
  std::string operation, algorithm;
  int ranks = 4, root = 0, lanes = 1, window = 4, nodes = 1;
  std::string svg;
  std::size_t bytes = 1 << 20, chunk_bytes = 64 * 1024;
  LinkModel link;
  bool draw = true;
};

void list_algorithms() {
  fmt::print("{:<12} {:<20} {}\n", "operation", "algorithm", "");
  for (const Algorithm& a : algorithms())
    fmt::print("{:<12} {:<20} {}\n", operation_name(a.operation), a.name, a.description);
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  if (!(file << text) || !file.flush()) throw std::runtime_error(fmt::format("{} cannot be written", path));
  fmt::print("drawn in {}\n", path);
}

void show(const PlanOptions& o) {
  if (o.nodes < 1 || o.nodes > o.ranks) throw std::runtime_error(fmt::format("--nodes {} is not between 1 and the {} ranks", o.nodes, o.ranks));
  if (o.algorithm.empty()) return list_algorithms();
  const Algorithm* found = nullptr;
  for (const Algorithm& a : algorithms())
    if (operation_name(a.operation) == o.operation && a.name == o.algorithm) found = &a;
  if (!found)
    throw std::runtime_error(fmt::format("there is no algorithm \"{}\" for \"{}\"; slipring-info plan lists all",
                                         o.algorithm, o.operation));
  std::vector<int> node_of_rank;  // ranks of a node are neighbours, nodes equal but for one rank
  for (int rank = 0; o.nodes > 1 && rank < o.ranks; ++rank) node_of_rank.push_back(static_cast<int>(static_cast<long>(rank) * o.nodes / o.ranks));
  const PlanRequest request{.ranks = o.ranks, .root = o.root, .lanes = o.lanes, .node_of_rank = node_of_rank};
  if (Status s = valid_request(request); !s) throw std::runtime_error(s.message());
  const Plan plan = found->build(request);
  if (o.draw) fmt::print("{}\n", draw_plan(plan));
  if (!o.svg.empty()) write_file(o.svg, draw_plan_svg(plan, node_of_rank));
  const PlanCost cost = plan_cost(plan, o.bytes / sizeof(float), sizeof(float), o.chunk_bytes, o.window, o.link, node_of_rank);
  fmt::print("for {} bytes in chunks of {} (alpha {} us, beta {} us/byte, gamma {} us/byte):\n", o.bytes, o.chunk_bytes,
             o.link.alpha_us, o.link.beta_us_per_byte, o.link.gamma_us_per_byte);
  fmt::print("  time {:.1f} us, messages {}, bytes {}, most bytes sent by one rank {}\n", cost.time_us, cost.messages,
             cost.bytes, cost.most_sent_bytes);
  if (o.nodes > 1)
    fmt::print("  between {} nodes (alpha {} us, beta {} us/byte): bytes {}, most bytes that leave one node {}\n", o.nodes, o.link.node_alpha_us,
               o.link.node_beta_us_per_byte, cost.node_bytes, cost.most_node_bytes);
}

}  // namespace

void add_plan_command(CLI::App& app) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand("plan", "a collective's schedule, drawn and costed; without arguments all algorithms");
  command->add_option("operation", options->operation, "e.g. all_reduce");
  command->add_option("algorithm", options->algorithm, "e.g. ring")->needs("operation");
  command->add_option("-n,--ranks", options->ranks, "number of ranks")->capture_default_str();
  command->add_option("-r,--root", options->root, "root, where the operation has one")->capture_default_str();
  command->add_option("--lanes", options->lanes, "schedules side by side")->capture_default_str();
  command->add_option("-b,--bytes", options->bytes, "size to cost, f32 elements")->capture_default_str();
  command->add_option("-c,--chunk-bytes", options->chunk_bytes, "chunk to cost")->capture_default_str()->check(CLI::PositiveNumber);
  command->add_option("--window", options->window, "chunks of a block under way")->capture_default_str()->check(CLI::PositiveNumber);
  command->add_option("--nodes", options->nodes, "spread the ranks over that many nodes")->capture_default_str();
  command->add_option("--svg", options->svg, "draw lane 0 into this file");
  command->add_option("--node-alpha", options->link.node_alpha_us, "us per message between nodes")->capture_default_str();
  command->add_option("--node-beta", options->link.node_beta_us_per_byte, "us per byte sent between nodes")->capture_default_str();
  command->add_option("--alpha", options->link.alpha_us, "us per message")->capture_default_str();
  command->add_option("--beta", options->link.beta_us_per_byte, "us per byte sent")->capture_default_str();
  command->add_option("--gamma", options->link.gamma_us_per_byte, "us per byte reduced or copied")->capture_default_str();
  command->add_flag("!--no-draw", options->draw, "cost only, for large groups");
  command->callback([options] { show(*options); });
}

}  // namespace slipring::tools
