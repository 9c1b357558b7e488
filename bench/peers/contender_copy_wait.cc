// Contender: the copy-and-wait scheme of bench/reference, for the all_reduces of a decoding step.
#include <atomic>
#include <cstdio>
#include <exception>

#include "bench/reference/copy_wait.h"
#include "shared_object.h"
#include "turn.h"

namespace {

struct Mapped {
  copy_wait::Shared scheme;
  std::atomic<int> mapped;
};

class CopyWaitContender : public turn::Contender {
 public:
  explicit CopyWaitContender(const turn::Seat& seat)
      : shared_(turn::map_shared<Mapped>(seat, "copy-wait")), group_(shared_.scheme, seat.rank, seat.size) {
    // The name goes when all have the memory.
    if (shared_.mapped.fetch_add(1) + 1 == seat.size) turn::unlink_shared(seat, "copy-wait");
  }
  std::vector<std::string> ops() const override { return {"decode"}; }
  std::string version() const override { return "copy in, wait for all, add up all; float sum"; }
  void all_reduce(float* buffer, std::size_t count) override { group_.all_reduce(buffer, count); }

 private:
  Mapped& shared_;
  copy_wait::Group group_;
};

}  // namespace

int main() {
  const turn::Seat seat = turn::take_seat();
  if (seat.size < 2 || seat.size > copy_wait::kRanks) {
    std::fprintf(stderr, "the copy-and-wait scheme knows 2 to %d ranks only\n", copy_wait::kRanks);
    return 1;
  }
  try {
    CopyWaitContender contender(seat);
    return turn::serve(seat, contender);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "copy-wait did not start: %s\n", error.what());
    return 1;
  }
}
