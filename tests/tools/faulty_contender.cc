// A contender that goes wrong as FAULTY_CONTENDER says: "wrong" spoils a result, "dies" ends rank 1 in the first
// timed turn, "stalls" never comes back from it. Takes the place of the bare reference in peers_faults_test.py.
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "bench/peers/turn.h"

namespace {

class FaultyContender : public turn::Contender {
 public:
  explicit FaultyContender(const turn::Seat& seat) : rank_(seat.rank), size_(seat.size) {
    if (const char* fault = std::getenv("FAULTY_CONTENDER")) fault_ = fault;
  }
  std::vector<std::string> ops() const override { return {"all_reduce"}; }
  std::string version() const override { return "faulty"; }

  // No exchange is needed to know the sum: the check gives rank r the multiple r + 1 of one pattern.
  void all_reduce(float* buffer, std::size_t count) override {
    const float factor = static_cast<float>(size_ * (size_ + 1) / 2) / static_cast<float>(rank_ + 1);
    for (std::size_t i = 0; i < count; ++i) buffer[i] *= factor;
    if (fault_ == "wrong") buffer[count - 1] += 1;
    if (++calls_ == 1) return;  // the check
    if (fault_ == "dies" && rank_ == 1) ::_exit(9);
    while (fault_ == "stalls") ::usleep(1000);
  }

 private:
  int rank_;
  int size_;
  int calls_ = 0;
  std::string fault_;
};

}  // namespace

int main() {
  const turn::Seat seat = turn::take_seat();
  FaultyContender contender(seat);
  return turn::serve(seat, contender);
}
