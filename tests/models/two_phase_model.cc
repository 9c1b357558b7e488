// Two-phase chunks (collectives/direct/two_phase.cc) under Relacy: four staging slots, no acknowledgements.
//
// Every rank, for chunk g: stages the others' blocks in its slot g % 4 and tells `staged`; reduces its own block
// out of the peers' slots into its own slot and tells `reduced`; copies the blocks of chunk g - 1 out of the
// peers' slots. The claim: a slot is never written while a peer may still read its last content. Three slots
// would do: reduce(g - 1) has seen every peer stage g - 1, which follows that peer's copy_out(g - 3). The model
// follows the loop of two_phase.cc and the words of rank_area.h; a block is one rl::var.
#include "tests/models/relacy_policy.h"

namespace slipring::models {
namespace {

constexpr std::uint64_t kChunks = 7;
constexpr unsigned kStagingSlots = 4;  // as in rank_area.h

template <unsigned ranks>
struct TwoPhaseModel : rl::test_suite<TwoPhaseModel<ranks>, ranks> {
  ModelAtomic<std::uint64_t> staged[ranks], reduced[ranks];
  rl::var<std::uint64_t> slot[ranks][kStagingSlots][ranks];  // of a rank, by chunk and place

  void before() {
    for (auto& a : staged) a.begin("CHUNK_STAGED", 0);
    for (auto& a : reduced) a.begin("CHUNK_REDUCED", 0);
  }

  // Chunks differ in size, so a block lies elsewhere in the next use of the slot: here it moves by one place.
  rl::var<std::uint64_t>& block_of(unsigned rank, std::uint64_t g, unsigned block) {
    const unsigned slots = is_broken("two_phase", "third_slot") ? 2 : kStagingSlots;
    return slot[rank][g % slots][(block + g / slots) % ranks];
  }
  static std::uint64_t input(unsigned rank, std::uint64_t g, unsigned block) { return 100 * g + 10 * rank + block; }
  static std::uint64_t result(std::uint64_t g, unsigned block) {
    std::uint64_t sum = 0;
    for (unsigned r = 0; r < ranks; ++r) sum += input(r, g, block);
    return sum;
  }
  static void await(const ModelAtomic<std::uint64_t>& chunks, std::uint64_t at_least) {
    while (static_cast<std::int64_t>(RelacyPolicy::load_acquire(chunks) - at_least) < 0) model_yield();
  }

  void thread(unsigned me) {
    for (std::uint64_t g = 0; g < kChunks; ++g) {
      stage(me, g);
      reduce(me, g);
      if (g != 0) copy_out(me, g - 1);
    }
    copy_out(me, kChunks - 1);
  }

  void stage(unsigned me, std::uint64_t g) {
    for (unsigned block = 0; block < ranks; ++block) {
      if (block != me) block_of(me, g, block)($) = input(me, g, block);
    }
    RelacyPolicy::store_release(staged[me], g + 1);
  }

  void reduce(unsigned me, std::uint64_t g) {
    std::uint64_t sum = input(me, g, me);
    for (unsigned r = 0; r < ranks; ++r) {
      if (r == me) continue;
      await(staged[r], g + 1);
      sum += block_of(r, g, me)($);
    }
    RL_ASSERT(sum == result(g, me));
    block_of(me, g, me)($) = sum;
    RelacyPolicy::store_release(reduced[me], g + 1);
  }

  void copy_out(unsigned me, std::uint64_t g) {
    for (unsigned i = 1; i < ranks; ++i) {
      const unsigned r = (me + i) % ranks;
      await(reduced[r], g + 1);
      RL_ASSERT(block_of(r, g, r)($) == result(g, r));
    }
  }
};

bool run_all(std::string& verdict) {
  std::string found;
  if (!explore<TwoPhaseModel<2>>({.random_runs = 100'000, .context_bound = 0}, found)) {
    verdict = "two ranks: " + found;
    return false;
  }
  if (!explore<TwoPhaseModel<3>>({.random_runs = 50'000, .context_bound = 0}, found)) {
    verdict = "three ranks: " + found;
    return false;
  }
  return true;
}

}  // namespace
}  // namespace slipring::models

int main(int argc, char** argv) {
  return slipring::models::model_main(argc, argv,
                                      {"CHUNK_STAGED.writer", "CHUNK_STAGED.reader", "CHUNK_REDUCED.writer",
                                       "CHUNK_REDUCED.reader", "two_phase.third_slot"},
                                      slipring::models::run_all);
}
