// Contender: the bare reference of bench/reference, which Slipring is measured against.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string>

#include "bench/reference/bare.h"
#include "turn.h"

namespace {

// Both ranks open the same name in /dev/shm; rank 1 removes it, and the mappings live on.
bare::Shared& map_shared(const turn::Seat& seat) {
  std::string name = "/slipring-bare-";
  for (const char c : seat.directory) name += c == '/' ? '-' : c;
  int fd = -1;
  for (int tries = 0; fd < 0 && tries < 5000; ++tries) {
    fd = ::shm_open(name.c_str(), seat.rank == 0 ? O_RDWR | O_CREAT : O_RDWR, 0600);
    if (fd < 0) ::usleep(2000);
  }
  if (fd < 0) throw std::runtime_error("shared memory " + name + " cannot be opened");
  if (seat.rank == 0 && ::ftruncate(fd, sizeof(bare::Shared)) != 0) throw std::runtime_error("ftruncate failed");
  while (::lseek(fd, 0, SEEK_END) < static_cast<off_t>(sizeof(bare::Shared))) ::usleep(1000);
  void* memory = ::mmap(nullptr, sizeof(bare::Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  ::close(fd);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap failed");
  if (seat.rank == 1) ::shm_unlink(name.c_str());
  return *static_cast<bare::Shared*>(memory);
}

class BareContender : public turn::Contender {
 public:
  explicit BareContender(const turn::Seat& seat) : pair_(map_shared(seat), seat.rank) {}
  std::vector<std::string> ops() const override { return {"send_recv", "stream", "all_reduce"}; }
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
