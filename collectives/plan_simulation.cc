#include "collectives/plan_simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "collectives/plan_text.h"

namespace slipring::collectives {

ExpressionTable::ExpressionTable(int ranks) : words_((static_cast<std::size_t>(ranks) + 63) / 64) {
  for (int rank = 0; rank < ranks; ++rank) {
    nodes_.push_back({-1, -1, false});
    ranks_of_.resize(ranks_of_.size() + words_, 0);
    ranks_of_[ranks_of_.size() - words_ + static_cast<std::size_t>(rank) / 64] |= std::uint64_t{1}
                                                                                  << (rank % 64);
  }
}

std::int32_t ExpressionTable::intern(Node node) {
  const std::uint64_t key = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(node.left)) << 32) |
                            static_cast<std::uint32_t>(node.right);
  const auto [found, is_new] = numbers_.try_emplace(key, static_cast<std::int32_t>(nodes_.size()));
  if (!is_new) return found->second;
  nodes_.push_back(node);
  const std::size_t begin = ranks_of_.size();
  ranks_of_.resize(begin + words_, 0);
  for (const std::int32_t part : {node.left, node.right}) {
    for (std::size_t w = 0; part >= 0 && w < words_; ++w) {
      ranks_of_[begin + w] |= ranks_of_[static_cast<std::size_t>(part) * words_ + w];
    }
  }
  return found->second;
}

std::int32_t ExpressionTable::combine(std::int32_t left, std::int32_t right) {
  return intern({left, right, false});
}

std::int32_t ExpressionTable::finish(std::int32_t value) {
  return intern({value, -1, true});
}

bool ExpressionTable::overlap(std::int32_t a, std::int32_t b) const {
  for (std::size_t w = 0; w < words_; ++w) {
    if (ranks_of_[static_cast<std::size_t>(a) * words_ + w] &
        ranks_of_[static_cast<std::size_t>(b) * words_ + w]) {
      return true;
    }
  }
  return false;
}

int ExpressionTable::contributions(std::int32_t value) const {
  int count = 0;
  for (std::size_t w = 0; w < words_; ++w) {
    count += std::popcount(ranks_of_[static_cast<std::size_t>(value) * words_ + w]);
  }
  return count;
}

std::string ExpressionTable::text(std::int32_t value) const {
  if (value == kUndefined) return "undefined";
  const Node& node = nodes_[static_cast<std::size_t>(value)];
  if (node.finished) return text(node.left) + "!";
  if (node.left < 0) return fmt::format("{}", value);
  return fmt::format("({} {})", text(node.left), text(node.right));
}

LaneSimulation::LaneSimulation(const Plan& plan, int lane, const SimulationCase& run,
                               ExpressionTable& expressions)
    : plan_(plan),
      run_(run),
      expressions_(expressions),
      grid_(0, run.lane_chunks, plan.blocks(), 1, run.window),
      max_chunks_(grid_.chunks(0)) {
  const std::size_t cells = static_cast<std::size_t>(plan.blocks()) * max_chunks_;
  const auto cursors = 2 * static_cast<std::size_t>(plan.ranks());
  ranks_.reserve(static_cast<std::size_t>(plan.ranks()));
  for (int r = 0; r < plan.ranks(); ++r) {
    RankState& rank = ranks_.emplace_back(plan.steps(r, lane));
    rank.sender = Cursor(rank.steps, rank.own.sends, grid_);
    rank.receiver = Cursor(rank.steps, rank.own.receives, grid_);
    rank.input.assign(cells, ExpressionTable::kUndefined);
    for (int block = 0; block < plan.blocks(); ++block) {
      if (!has_input(plan.operation(), plan.ranks(), plan.root(), r, block)) continue;
      std::fill_n(rank.input.begin() + static_cast<std::ptrdiff_t>(cell(block, 0)), max_chunks_, r);
    }
    rank.output.assign(cells, ExpressionTable::kUndefined);
    if (run.in_place) rank.output = rank.input;
    if (!run.check_hazards) continue;
    rank.sender_clock.assign(cursors, 0);
    rank.receiver_clock.assign(cursors, 0);
    rank.ordinal.assign(rank.steps.size() * max_chunks_, 0);
    rank.saved.assign(rank.steps.size() * max_chunks_, -1);
    find_conflicts(rank);
  }
  connect();
}

void LaneSimulation::connect() {
  std::unordered_map<std::uint64_t, std::int32_t> numbers;
  for (int r = 0; r < plan_.ranks(); ++r) {
    RankState& rank = ranks_[static_cast<std::size_t>(r)];
    for (const Step& step : rank.steps) {
      if (step.kind == StepKind::copy) {
        rank.channel.push_back(-1);
        continue;
      }
      const bool sends = step.kind == StepKind::send;
      const auto from = static_cast<std::uint64_t>(sends ? r : step.peer);
      const auto to = static_cast<std::uint64_t>(sends ? step.peer : r);
      const auto number = static_cast<std::int32_t>(numbers.size());
      rank.channel.push_back(numbers.try_emplace((from << 32) | to, number).first->second);
    }
  }
  channels_.resize(numbers.size());
  if (run_.check_hazards) {
    for (Channel& channel : channels_) channel.clock.assign(2 * ranks_.size(), 0);
  }
}

void LaneSimulation::find_conflicts(RankState& rank) {
  std::vector<std::int32_t> reader(static_cast<std::size_t>(plan_.blocks()), -1);
  std::vector<std::int32_t> writer(static_cast<std::size_t>(plan_.blocks()), -1);
  rank.followers.assign(rank.steps.size(), 0);
  for (std::size_t i = 0; i < rank.steps.size(); ++i) {
    const Step& step = rank.steps[i];
    const auto block = static_cast<std::size_t>(step.block);
    if (step.after >= 0) ++rank.followers[static_cast<std::size_t>(step.after)];
    const bool touches_output = step.kind == StepKind::send ? step.from == Side::output || run_.in_place
                                                            : step.kind != StepKind::copy || !run_.in_place;
    std::int32_t conflict = -1;
    if (touches_output) {
      conflict = step.kind == StepKind::send ? writer[block] : reader[block];
      (step.kind == StepKind::send ? reader : writer)[block] = static_cast<std::int32_t>(i);
    }
    rank.conflict.push_back(conflict);
  }
}

bool LaneSimulation::fail(PlanFault fault, int rank, const Position& at, const std::string& why) {
  result_.fault = fault;
  result_.text =
      fmt::format("rank {} {} chunk {}: {}", rank,
                  describe_step(ranks_[static_cast<std::size_t>(rank)].steps, at.step), at.chunk, why);
  return false;
}

static void merge(std::vector<std::uint32_t>& into, const std::vector<std::uint32_t>& from) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

/// The edge `after`: what was known when that very chunk was done, not what its cursor has learned since.
void LaneSimulation::follow(RankState& rank, const Step& step, const Position& at, Clock& clock) {
  if (step.after < 0) return;
  const std::size_t followed = event({at.window, step.after, at.chunk});
  const auto index = static_cast<std::size_t>(rank.saved[followed]);
  SavedClock& saved = saved_[index];
  merge(clock, saved.clock);
  if (--saved.users == 0) free_saved_.push_back(static_cast<std::int32_t>(index));
}

void LaneSimulation::record_event(RankState& rank, Cursor& cursor, Clock& clock, std::size_t component) {
  const Position at = cursor.position();
  rank.ordinal[event(at)] = ++clock[component];
  const int followers = rank.followers[static_cast<std::size_t>(at.step)];
  if (followers == 0) return;
  if (free_saved_.empty()) {
    free_saved_.push_back(static_cast<std::int32_t>(saved_.size()));
    saved_.emplace_back();
  }
  const std::int32_t index = free_saved_.back();
  free_saved_.pop_back();
  saved_[static_cast<std::size_t>(index)].clock = clock;
  saved_[static_cast<std::size_t>(index)].users = followers;
  rank.saved[event(at)] = index;
}

void LaneSimulation::check_hazard(int r, const Position& at, const Clock& clock,
                                  std::size_t other_component) {
  const RankState& rank = ranks_[static_cast<std::size_t>(r)];
  const std::int32_t earlier = rank.conflict[static_cast<std::size_t>(at.step)];
  if (earlier < 0) return;
  const std::uint32_t ordinal = rank.ordinal[event({at.window, earlier, at.chunk})];
  if (ordinal != 0 && clock[other_component] >= ordinal) return;
  const bool sends = rank.steps[static_cast<std::size_t>(at.step)].kind == StepKind::send;
  fail(sends ? PlanFault::read_too_early : PlanFault::write_too_early, r, at,
       fmt::format("nothing makes it wait for {}", describe_step(rank.steps, earlier)));
}

bool LaneSimulation::fire_send(int r) {
  RankState& rank = ranks_[static_cast<std::size_t>(r)];
  Cursor& cursor = rank.sender;
  if (cursor.at_end()) return false;
  const Position at = cursor.position();
  const Step& step = cursor.step();
  Channel& channel = channels_[static_cast<std::size_t>(rank.channel[static_cast<std::size_t>(at.step)])];
  if (channel.full || (step.after >= 0 && !rank.receiver.passed(step.after, at))) return false;
  if (run_.check_hazards) {
    const auto component = static_cast<std::size_t>(2 * r);
    follow(rank, step, at, rank.sender_clock);
    check_hazard(r, at, rank.sender_clock, component + 1);
    if (!result_.ok()) return false;
    record_event(rank, cursor, rank.sender_clock, component);
    channel.clock = rank.sender_clock;
  }
  const bool from_output = step.from == Side::output || run_.in_place;
  channel.value = (from_output ? rank.output : rank.input)[cell(step.block, at.chunk)];
  if (channel.value == ExpressionTable::kUndefined) {
    return fail(PlanFault::undefined_read, r, at, "the block has not been written");
  }
  channel.full = true;
  cursor.advance();
  return true;
}

void LaneSimulation::write_output(int r, const Step& step, std::int32_t message) {
  RankState& rank = ranks_[static_cast<std::size_t>(r)];
  const Position at = rank.receiver.position();
  const std::size_t here = cell(step.block, at.chunk);
  std::int32_t value = message;
  if (step.kind != StepKind::receive) {
    const bool from_output =
        run_.in_place || (step.kind == StepKind::receive_reduce && step.from == Side::output);
    const std::int32_t local = (from_output ? rank.output : rank.input)[here];
    if (local == ExpressionTable::kUndefined) {
      fail(PlanFault::undefined_read, r, at, "the output block has not been written");
      return;
    }
    value = local;
    if (step.kind == StepKind::receive_reduce) {
      if (expressions_.is_finished(local) || expressions_.is_finished(message)) {
        fail(PlanFault::wrong_finish, r, at, "it reduces a value that is finished already");
        return;
      }
      // A barrier's op is idempotent, and its rounds overlap unless the ranks are a power of two.
      if (plan_.operation() != Operation::barrier && expressions_.overlap(local, message)) {
        fail(PlanFault::counted_twice, r, at,
             fmt::format("{} and {} share inputs", expressions_.text(local), expressions_.text(message)));
        return;
      }
      value =
          step.received_first ? expressions_.combine(message, local) : expressions_.combine(local, message);
    }
  }
  if (step.finish) {
    if (expressions_.is_finished(value)) {
      fail(PlanFault::wrong_finish, r, at, "it finishes a value twice");
      return;
    }
    value = expressions_.finish(value);
  }
  rank.output[here] = value;
}

bool LaneSimulation::fire_receive(int r) {
  RankState& rank = ranks_[static_cast<std::size_t>(r)];
  Cursor& cursor = rank.receiver;
  if (cursor.at_end()) return false;
  const Position at = cursor.position();
  const Step& step = cursor.step();
  if (step.after >= 0 && !rank.sender.passed(step.after, at)) return false;
  const std::int32_t number = rank.channel[static_cast<std::size_t>(at.step)];
  Channel* channel = number < 0 ? nullptr : &channels_[static_cast<std::size_t>(number)];
  if (channel && !channel->full) return false;
  if (run_.check_hazards) {
    const auto component = static_cast<std::size_t>(2 * r + 1);
    if (channel) merge(rank.receiver_clock, channel->clock);
    follow(rank, step, at, rank.receiver_clock);
    check_hazard(r, at, rank.receiver_clock, component - 1);
    if (!result_.ok()) return false;
    record_event(rank, cursor, rank.receiver_clock, component);
  }
  write_output(r, step, channel ? channel->value : ExpressionTable::kUndefined);
  if (!result_.ok()) return false;
  if (channel) channel->full = false;
  cursor.advance();
  return true;
}

PlanCheck LaneSimulation::stuck() const {
  PlanCheck check;
  for (int r = 0; r < plan_.ranks(); ++r) {
    const RankState& rank = ranks_[static_cast<std::size_t>(r)];
    for (const Cursor* cursor : {&rank.sender, &rank.receiver}) {
      if (cursor->at_end()) continue;
      check.fault = PlanFault::deadlock;
      check.text += fmt::format("{}rank {} cannot do {} chunk {}", check.text.empty() ? "" : "; ", r,
                                describe_step(rank.steps, cursor->position().step), cursor->position().chunk);
    }
  }
  return check;
}

void LaneSimulation::wake(int cursor) {
  if (is_listed_[static_cast<std::size_t>(cursor)]) return;
  is_listed_[static_cast<std::size_t>(cursor)] = true;
  candidates_.push_back(cursor);
}

/// Takes the next cursor to try from those that something may have enabled.
int LaneSimulation::take(std::mt19937_64& random) {
  if (run_.schedule == ScheduleKind::random) {
    std::swap(candidates_[random() % candidates_.size()], candidates_.back());
  }
  const bool oldest_first = run_.schedule == ScheduleKind::round_robin;
  const int cursor = oldest_first ? candidates_.front() : candidates_.back();
  if (oldest_first) {
    candidates_.pop_front();
  } else {
    candidates_.pop_back();
  }
  is_listed_[static_cast<std::size_t>(cursor)] = false;
  return cursor;
}

PlanCheck LaneSimulation::run() {
  std::mt19937_64 random(run_.seed);
  const int cursors = 2 * plan_.ranks();  // cursor 2r sends for rank r, cursor 2r+1 receives
  is_listed_.assign(static_cast<std::size_t>(cursors), false);
  for (int i = 0; i < cursors; ++i) wake(run_.schedule == ScheduleKind::greedy_forward ? cursors - 1 - i : i);
  while (!candidates_.empty()) {
    const int cursor = take(random);
    std::size_t burst = SIZE_MAX;
    if (run_.schedule == ScheduleKind::round_robin) burst = 1;
    if (run_.schedule == ScheduleKind::random) burst = 1 + random() % 4;
    bool moved = true;
    while (moved && burst-- > 0) {
      const int r = cursor / 2;
      const Cursor& walk = cursor % 2 == 0 ? ranks_[static_cast<std::size_t>(r)].sender
                                           : ranks_[static_cast<std::size_t>(r)].receiver;
      const int peer = walk.at_end() ? -1 : walk.step().peer;
      moved = cursor % 2 == 0 ? fire_send(r) : fire_receive(r);
      if (!result_.ok()) return result_;
      if (!moved) break;
      wake(cursor ^ 1);                                           // `after` may have been met
      if (peer >= 0) wake(2 * peer + (cursor % 2 == 0 ? 1 : 0));  // a message, or room
    }
    if (moved) wake(cursor);
  }
  return stuck();
}

}  // namespace slipring::collectives
