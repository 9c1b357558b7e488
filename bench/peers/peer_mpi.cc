// Contender over MPI; compiled once against Open MPI and once against MPICH.
#include <mpi.h>

#include <array>

#include "turn.h"

namespace {

class MpiContender : public turn::Contender {
 public:
  std::vector<std::string> ops() const override { return {"send_recv", "stream",   "stream_in_place", "all_reduce", "all_gather", "reduce_scatter",
            "all_to_all", "broadcast", "barrier",         "decode"}; }
  std::string version() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    MPI_Get_library_version(text, &length);
    const std::string whole(text, static_cast<std::size_t>(length));
    return whole.substr(0, whole.find_first_of(",\n"));
  }

  void all_reduce(float* buffer, std::size_t count) override {
    MPI_Allreduce(MPI_IN_PLACE, buffer, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void all_gather(const float* in, float* out, std::size_t count) override {
    const int n = static_cast<int>(count);
    MPI_Allgather(in, n, MPI_FLOAT, out, n, MPI_FLOAT, MPI_COMM_WORLD);
  }
  void reduce_scatter(const float* in, float* out, std::size_t count) override {
    MPI_Reduce_scatter_block(in, out, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void all_to_all(const float* in, float* out, std::size_t count) override {
    const int n = static_cast<int>(count);
    MPI_Alltoall(in, n, MPI_FLOAT, out, n, MPI_FLOAT, MPI_COMM_WORLD);
  }
  void broadcast(float* buffer, std::size_t count) override {
    MPI_Bcast(buffer, static_cast<int>(count), MPI_FLOAT, 0, MPI_COMM_WORLD);
  }
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
  void send(const std::byte* buffer, std::size_t bytes, int peer) override {
    MPI_Send(buffer, static_cast<int>(bytes), MPI_BYTE, peer, 0, MPI_COMM_WORLD);
  }
  void recv(std::byte* buffer, std::size_t bytes, int peer) override {
    MPI_Recv(buffer, static_cast<int>(bytes), MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }

  // A sliding window: the oldest request is completed before its buffer is used again.
  void stream_send(const std::byte* buffers, std::size_t bytes, std::size_t messages, int peer) override {
    window(messages, [&](std::size_t i, MPI_Request* request) {
      MPI_Isend(buffers + i * bytes, static_cast<int>(bytes), MPI_BYTE, peer, 0, MPI_COMM_WORLD, request);
    });
  }
  void stream_recv(std::byte* buffers, std::size_t bytes, std::size_t messages, int peer) override {
    window(messages, [&](std::size_t i, MPI_Request* request) {
      MPI_Irecv(buffers + i * bytes, static_cast<int>(bytes), MPI_BYTE, peer, 0, MPI_COMM_WORLD, request);
    });
  }

 private:
  template <class Post>
  static void window(std::size_t messages, const Post& post) {
    std::array<MPI_Request, turn::kStreamWindow> requests;
    requests.fill(MPI_REQUEST_NULL);
    for (std::size_t i = 0; i < messages; ++i) {
      const std::size_t slot = i % turn::kStreamWindow;
      MPI_Wait(&requests[slot], MPI_STATUS_IGNORE);
      post(slot, &requests[slot]);
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const turn::Seat seat = turn::take_seat();
  MPI_Init(&argc, &argv);
  MpiContender contender;
  const int status = turn::serve(seat, contender);
  MPI_Finalize();
  return status;
}
