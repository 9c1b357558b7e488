// Contender: the bare reference of bench/reference, which Slipring is measured against.
#include <cstdio>
#include <exception>

#include "bench/reference/bare.h"
#include "shared_object.h"
#include "turn.h"

namespace {

class BareContender : public turn::Contender {
 public:
  explicit BareContender(const turn::Seat& seat) : pair_(turn::map_shared<bare::Shared>(seat, "bare"), seat.rank) {
    if (seat.rank == 1) turn::unlink_shared(seat, "bare");
  }
  std::vector<std::string> ops() const override { return {"send_recv", "stream", "all_reduce", "decode"}; }
  std::string version() const override { return "bare reference, 2 ranks, float sum"; }

  void all_reduce(float* buffer, std::size_t count) override { pair_.all_reduce(buffer, count); }
  void send(const std::byte* buffer, std::size_t bytes, int) override { pair_.send(buffer, bytes); }
  void recv(std::byte* buffer, std::size_t bytes, int) override { pair_.recv(buffer, bytes); }

 private:
  bare::Pair pair_;
};

}  // namespace

int main() {
  const turn::Seat seat = turn::take_seat();
  if (seat.size != 2) {
    std::fprintf(stderr, "the bare reference knows 2 ranks only\n");
    return 1;
  }
  try {
    BareContender contender(seat);
    return turn::serve(seat, contender);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bare did not start: %s\n", error.what());
    return 1;
  }
}
