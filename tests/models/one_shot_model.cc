// One-shot publication (collectives/direct) under Relacy: boxes doubled by the operation's parity, and no
// acknowledgements.
//
// Every rank, for operation k: writes its box k & 1, stores sequence k (release), waits until every peer's
// sequence is at least k (acquire), reads the peers' boxes. The claim: a box is never written while a peer may
// still read it, because a peer that has published k - 1 has finished reading operation k - 2, which is the
// last one of the same parity. The model follows direct_collectives.h, whose words live in RankControl.
#include "tests/models/relacy_policy.h"

namespace slipring::models {
namespace {

constexpr std::uint64_t kOperations = 3;

template <unsigned ranks>
struct OneShotModel : rl::test_suite<OneShotModel<ranks>, ranks> {
  ModelAtomic<std::uint64_t> sequence[ranks];
  rl::var<std::uint64_t> box[ranks][2];

  void before() {
    for (auto& s : sequence) s.begin("OPERATION_PUBLISHED", 0);
  }

  static unsigned parity(std::uint64_t k) { return is_broken("one_shot", "parity") ? 0 : k & 1; }

  void thread(unsigned me) {
    for (std::uint64_t k = 1; k <= kOperations; ++k) {
      box[me][parity(k)]($) = k * 10 + me;
      RelacyPolicy::store_release(sequence[me], k);
      for (unsigned peer = 0; peer < ranks; ++peer) {
        if (peer == me) continue;
        while (RelacyPolicy::load_acquire(sequence[peer]) < k) model_yield();
      }
      for (unsigned rank = 0; rank < ranks; ++rank) RL_ASSERT(box[rank][parity(k)]($) == k * 10 + rank);
    }
  }
};

bool run_all(std::string& verdict) {
  std::string found;
  if (!explore<OneShotModel<2>>({.random_runs = 200'000, .context_bound = 4}, found)) {
    verdict = "two ranks: " + found;
    return false;
  }
  if (!explore<OneShotModel<3>>({.random_runs = 200'000, .context_bound = 1}, found)) {
    verdict = "three ranks: " + found;
    return false;
  }
  return true;
}

}  // namespace
}  // namespace slipring::models

int main(int argc, char** argv) {
  return slipring::models::model_main(
      argc, argv, {"OPERATION_PUBLISHED.writer", "OPERATION_PUBLISHED.reader", "one_shot.parity"},
      slipring::models::run_all);
}
