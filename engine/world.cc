// The process's own communicator: made once, compared ever after.
#include "slipring/world.h"

#include <map>
#include <memory>
#include <mutex>

#include "base/status.h"
#include "engine/raise.h"
#include "engine/unique_id.h"

namespace slipring {
namespace {

struct World {
  std::mutex mutex;
  std::unique_ptr<Communicator> communicator;
  JobOptions options;
};

// Never destroyed: a communicator that nobody finalized is its peers' business, not that of static destructors.
World& instance() {
  static auto* const world = new World;
  return *world;
}

bool same(const JobOptions& a, const JobOptions& b) {
  return a.rank == b.rank && a.size == b.size && a.store == b.store && a.job_token == b.job_token && a.config == b.config;
}

std::string text_of(const JobOptions& o) {
  std::string config;
  for (const auto& [key, value] : o.config) config += fmt::format("{}{}={}", config.empty() ? "" : " ", key, value);
  return fmt::format("rank {}, size {}, store \"{}\", config {{{}}}", o.rank, o.size,
                     engine::UniqueId::is_one(o.store) ? "a unique id" : o.store, config);
}

}  // namespace

Communicator& init(const JobOptions& options) {
  World& world = instance();
  const std::lock_guard lock(world.mutex);
  if (!world.communicator) {
    world.communicator = std::make_unique<Communicator>(Communicator::join(options));
    world.options = options;
  } else if (!same(options, world.options)) {
    throw Error(base::error(StatusCode::invalid_argument, "init was called before with {}; now with {}; finalize() first{}",
                            text_of(world.options), text_of(options),
                            options.job_token == world.options.job_token ? "" : " (the job tokens differ, too)"));
  }
  return *world.communicator;
}

Communicator& world() {
  World& world = instance();
  const std::lock_guard lock(world.mutex);
  if (!world.communicator) throw Error(base::error(StatusCode::unavailable, "there is no world yet: call init() first"));
  return *world.communicator;
}

void finalize() noexcept {
  World& world = instance();
  const std::lock_guard lock(world.mutex);
  world.communicator.reset();
}

std::string create_unique_id(const std::string& host) { return engine::value_or_raise(engine::UniqueId::create(host)).to_string(); }

}  // namespace slipring
