// The shipping doorbell under Relacy: no wake-up is lost, whoever publishes, poisons or sleeps.
//
// The sleeper has no time-out here, so a lost wake-up is a deadlock, which Relacy finds. The uneven fence is
// modelled as the full barrier that its two halves are together.
#include <array>

#include "base/doorbell.h"

#include "tests/models/relacy_policy.h"

namespace slipring::models {
namespace {

// Threads below `publishers` publish, the others await everything that is published, at one doorbell.
template <unsigned publishers, unsigned sleepers>
struct DoorbellModel : rl::test_suite<DoorbellModel<publishers, sleepers>, publishers + sleepers> {
  static constexpr std::uint32_t kMessages = publishers == 1 ? 2 : 1;
  static bool poison;  // the last message of thread 0 is a poison: wake() instead of ring()

  base::BasicDoorbell<RelacyPolicy> bell;
  ModelAtomic<std::uint32_t> published[publishers];

  void before() {
    bell.sleepers.begin("WAKE", 0);
    bell.rings.begin("RUNG", 0);
    for (auto& p : published) p.begin("awaited", 0);
  }

  void thread(unsigned who) {
    if (who < publishers)
      publish(who);
    else
      await();
  }

  void publish(unsigned who) {
    for (std::uint32_t i = 1; i <= kMessages; ++i) {
      RelacyPolicy::store_release(published[who], i);
      if (poison && who == 0 && i == kMessages)
        bell.wake();
      else
        bell.ring();
    }
  }

  void await() {
    for (std::uint32_t i = 1; i <= kMessages; ++i) {
      for (auto& p : published) {
        const auto pending = [&] { return RelacyPolicy::load_acquire(p) >= i; };
        while (!pending()) {
          bell.sleep_unless(pending, 0);
          model_yield();
        }
      }
    }
  }
};
template <unsigned publishers, unsigned sleepers>
bool DoorbellModel<publishers, sleepers>::poison = false;

template <class Model>
bool passes(bool poison, std::string_view name, std::string& verdict) {
  Model::poison = poison;
  std::string found;
  if (explore<Model>({.random_runs = 100'000, .context_bound = 3}, found)) return true;
  verdict = std::string(name) + (poison ? ", ending in poison: " : ": ") + found;
  return false;
}

bool run_all(std::string& verdict) {
  for (const bool poison : {false, true}) {
    if (!passes<DoorbellModel<1, 1>>(poison, "one publisher, one sleeper", verdict)) return false;
    if (!passes<DoorbellModel<2, 1>>(poison, "two publishers, one sleeper", verdict)) return false;
    if (!passes<DoorbellModel<1, 2>>(poison, "one publisher, two sleepers", verdict)) return false;
  }
  return true;
}

}  // namespace
}  // namespace slipring::models

int main(int argc, char** argv) {
  return slipring::models::model_main(
      argc, argv, {"WAKE.publisher_fence", "WAKE.sleeper_fence", "RUNG.writer"},
      slipring::models::run_all);
}
