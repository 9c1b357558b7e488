// Operation: one thing that slipring-perf can measure. A new one is a file in operations/ and its line in the
// list of operation.cc.
//
//   operation->set_up(count, Data::checked);   // every rank: buffers hold known data
//   operation->run(1);                         // every rank
//   operation->wrong();                        // elements on this rank that are not what they should be
//
// Data::checked is data that differs from element to element, and is good for one run. Data::timed is data
// that stays valid however often the operation runs, so that a timed loop does nothing but the operation and
// its result can be checked too. Belongs to one rank's thread; failures are thrown as slipring::Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "slipring/communicator.h"

namespace slipring::tools::perf {

struct Options;

enum class Data { checked, timed };

class Operation {
 public:
  virtual ~Operation() = default;
  virtual void set_up(std::size_t count, Data data) = 0;
  virtual void run(std::int64_t times) = 0;
  virtual std::uint64_t wrong() const = 0;
  /// Bytes of user buffers on this rank.
  virtual std::size_t buffer_bytes() const = 0;
};

struct OperationInfo {
  std::string_view name;
  std::string_view meaning;
  std::string_view algorithm_key = {};  ///< configuration key that --algo sets; empty: there is no choice
  bool is_collective = true;            ///< false: goes through channels, without a choice of algorithm
  bool has_size = true;                 ///< false: one row, of 0 bytes
  bool reduces = false;
  bool rooted = false;
  bool in_blocks = false;  ///< the size is that of one block per rank together
  bool has_out_of_place_form = false;
  bool has_asynchronous_form = false;
  bool has_in_place_form = false;
  int min_ranks = 1;
  /// One run is this many operations, as a ping-pong is two messages.
  int operations_per_run = 1;
  /// Bytes that cross the busiest link, per byte of the size; makes bandwidths of different sizes comparable.
  double (*bus_factor)(int ranks) = [](int) { return 1.0; };
  std::unique_ptr<Operation> (*make)(Communicator& comm, const Options& options) = nullptr;
};

std::span<const OperationInfo* const> operations();
/// nullptr if there is none of that name.
const OperationInfo* find_operation(std::string_view name);

}  // namespace slipring::tools::perf
