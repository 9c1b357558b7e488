// Turns: how the contenders of bench/peers stay alive side by side and run one at a time.
//
// Every contender is one program run as N ranks. A rank pins itself, sets its peer library up, and then sleeps
// in read() on its own named pipe until the controller (bench/peers/run) hands the contender a turn. A rank
// waits nowhere else between turns: a rank parked in MPI_Recv would spin and disturb the contender whose turn
// it is. One turn is one burst of one case, timed here and in the same way for every contender.
//
// A contender derives from Contender and passes itself to serve(); single-threaded. Failure: an exception that
// leaves a Contender is replied as {"error": ...} and ends the rank; so does the end of the controller (end of
// file on the pipe) and a turn that takes longer than kTurnLimitSeconds.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace turn {

/// Messages in flight in the stream cases; each has its own buffer, the same for every contender.
inline constexpr std::size_t kStreamWindow = 8;
inline constexpr unsigned kTurnLimitSeconds = 60;

/// Where this process sits: its rank, and the contender's folder with the pipes. The folder is private to the
/// contender and also free for its rendezvous files.
struct Seat {
  int rank = 0;
  int size = 0;
  std::string directory;
  std::vector<int> cores;
};

/// Reads TURN_DIR, TURN_SIZE, TURN_CORES and the rank (TURN_RANK, or what mpirun sets), pins the calling thread
/// to core TURN_CORES[rank mod cores] and reports the pid. Call it before the peer library starts, so that
/// the library's own threads and pages land on the same core. Exits with a sentence when a variable is missing.
Seat take_seat();

/// Lets the calling thread, and threads that it starts from now on, run on all of the contender's cores: for a
/// peer with threads of its own that would compete with the rank for its one core.
void widen_affinity(const Seat& seat);

/// What a peer can do. send and recv block; ranks 0 and 1 alone use them. Sizes are in bytes.
class Contender {
 public:
  virtual ~Contender() = default;
  /// Cases that are offered, by the names in cases.py.
  virtual std::vector<std::string> ops() const = 0;
  virtual std::string version() const = 0;

  /// Sum in place over all ranks; of float32, or of what the contender was started for (see cases.py).
  virtual void all_reduce(float* buffer, std::size_t count);
  /// What `all_reduce_bf16` and `all_reduce_f16` run: `bytes` of a two-byte type, or of float32 in the contender that
  /// they are compared with. Zeros only, whose sum is zero in each.
  virtual void all_reduce_halves(std::byte* buffer, std::size_t bytes, bool brain);
  // Out of place, float32; `count` is that of one rank's block.
  virtual void all_gather(const float* in, float* out, std::size_t count);
  virtual void reduce_scatter(const float* in, float* out, std::size_t count);
  virtual void all_to_all(const float* in, float* out, std::size_t count);
  /// From rank 0.
  virtual void broadcast(float* buffer, std::size_t count);
  virtual void barrier();
  virtual void send(const std::byte* buffer, std::size_t bytes, int peer);
  virtual void recv(std::byte* buffer, std::size_t bytes, int peer);

  /// `messages` messages; message i is buffers + (i mod kStreamWindow) * bytes. Copied in and copied out.
  virtual void stream_send(const std::byte* buffers, std::size_t bytes, std::size_t messages, int peer);
  virtual void stream_recv(std::byte* buffers, std::size_t bytes, std::size_t messages, int peer);

  /// As stream, but the producer stores `value` into every float of a message and the consumer sums them: in
  /// the channel itself where the contender can, else in `buffers` around a stream.
  virtual void produce(std::byte* buffers, std::size_t bytes, std::size_t messages, float value, int peer);
  virtual double consume(std::byte* buffers, std::size_t bytes, std::size_t messages, int peer);

  /// False for a contender that moves no data between ranks, whose results are therefore not checked.
  virtual bool exchanges_data() const { return true; }
};

/// The work of a producer and of a consumer in the in-place stream.
void store_floats(std::byte* to, std::size_t bytes, float value);
double sum_floats(const std::byte* from, std::size_t bytes);

/// Takes turns until told to quit. Returns the exit status.
int serve(const Seat& seat, Contender& contender);

}  // namespace turn
