// Plan: the schedule of one collective as data. An algorithm makes it, the checker proves it, the executor
// runs it.
//
// A plan knows no sizes: elements, element type and chunk size come with the operation. Plain value,
// immutable once built, safe to read from any thread. A plan that breaks the rules below is rejected by
// check_plan with the name of the rule; the executor trusts its plan and checks only what peers send.
//
// Nouns
//   lane    one of several schedules side by side ("rings"). The user's elements are divided over the lanes,
//           and each lane over its blocks; both by the same rule: of n elements in k parts the first n % k
//           parts get one more. Parts of zero elements are legal. Each lane has its own channels; lanes share
//           nothing.
//   block   what a step moves; numbered 0 .. blocks-1 within its lane.
//   chunk   a block is cut into chunks, the last one shorter; a chunk is one message. A block of zero
//           elements has no chunks, and neither side sends or awaits anything for it.
//   window  W consecutive chunks of every block: the depth of the pipeline.
//
// Steps: each (rank, lane) has a list
//   kind            does, per chunk                                        from          peer
//   send            message to peer = from[block]                          input|output  receiver
//   receive         output[block] = message                                -             sender
//   receive_reduce  output[block] = from[block] op message                 input|output  sender
//                   (message op from[block] if received_first)
//   copy            output[block] = input[block]                           -             -
//   finish          on receive_reduce or copy: the value becomes final here; avg divides here
//   after           index of an earlier step of the same list and block whose same chunk must be complete
//                   first: for a send, the step that wrote what it reads; for the other kinds a hold, that
//                   is, a send that must have read the old contents. -1: nothing to wait for.
//
// Meaning. The list, executed one step after the other, is what the plan means.
// Execution. To overlap, each (rank, lane) has two cursors, one over the sends and one over all other steps.
//   Both visit: for each window, for each of their steps in list order, for each chunk of the window in that
//   step's block. A cursor never skips: it waits until its next chunk can move. The receiving cursor waits
//   for a message and for `after` if given; the sending cursor for room and for `after`. Nothing else waits,
//   so a receive is taken as soon as its message is there, and no message size can deadlock a checked plan,
//   even on channels that hold one message.
// Hazards. A cursor that runs ahead could read a block too early or overwrite it while an earlier send still
//   needs it. The plan must exclude both for every timing: by `after`, or because the message can only exist
//   once the send is out (the all-gather half of a ring). The executor adds no holds of its own: a hold costs
//   a comparison per chunk and can deadlock, so it stands in the plan, where it is seen, drawn and proven.
// In place, input and output are one buffer; every plan must work in both forms.
//
// By hand, a broadcast of rank 0 to 1 to 2:
//   Plan plan(Operation::broadcast, "by_hand", 3, 0, 1, 1);
//   plan.steps(0, 0) = {{.kind = StepKind::copy}, {.kind = StepKind::send, .from = Side::input, .peer = 1}};
//   plan.steps(1, 0) = {{.kind = StepKind::receive, .peer = 0},
//                       {.kind = StepKind::send, .from = Side::output, .peer = 2, .after = 0}};
//   plan.steps(2, 0) = {{.kind = StepKind::receive, .peer = 1}};
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace slipring::collectives {

/// What a plan must achieve. New operations are appended; the checker holds each one's definition.
///   all_reduce  every output = op over all inputs, finished, in one order for all ranks
///   broadcast   every output = input of the root
/// In those below `reduce` a block is what one rank gives another one, and may have any size; a rank's input holds only
/// what is named here, and its output must end as named, the rest being scratch:
///   reduce          output of the root = op over all inputs, finished
///   all_gather      n blocks; input of rank r: block r; every output: all blocks
///   gather          as all_gather, on the root only
///   scatter         n blocks; input of the root: all; output of rank r: block r
///   reduce_scatter  n blocks; every input: all; output of rank r: block r = op over all inputs, finished
///   all_to_all      n * n blocks, block s * n + d from rank s to rank d; input: those from the rank; output: those to it
///   barrier     all_reduce of a token by an idempotent op (max), not finished: a rank may count twice.
///               Run it with one i32 in place; a rank is done only after all have entered, and agrees on the
///               largest token.
enum class Operation : std::uint8_t {
  all_reduce = 0,
  broadcast = 1,
  barrier = 2,
  reduce = 3,
  all_gather = 4,
  reduce_scatter = 5,
  gather = 6,
  scatter = 7,
  all_to_all = 8,
  split = 9,  ///< the making of a group; moves no data of the user's
};

/// Operations that users call; those below are the engine's own.
inline constexpr int kOperationCount = 9;

enum class StepKind : std::uint8_t { send, receive, receive_reduce, copy };
enum class Side : std::uint8_t { input, output };

struct Step {
  StepKind kind = StepKind::copy;
  Side from = Side::input;
  bool received_first = false;
  bool finish = false;
  std::int32_t block = 0;
  std::int32_t peer = -1;
  std::int32_t after = -1;

  bool operator==(const Step&) const = default;
};

std::string_view operation_name(Operation operation) noexcept;
/// Whether its blocks are what single ranks give and get, with sizes of their own, rather than parts of one vector.
bool moves_blocks(Operation operation) noexcept;
bool is_rooted(Operation operation) noexcept;
/// Blocks that the operation defines for n ranks; 0 where the algorithm is free to choose.
int blocks_of(Operation operation, int ranks) noexcept;
/// Whether the input of `rank` holds the block, and whether its output must.
bool has_input(Operation operation, int ranks, int root, int rank, int block) noexcept;
bool needs_output(Operation operation, int ranks, int root, int rank, int block) noexcept;
std::string_view step_kind_name(StepKind kind) noexcept;

class Plan {
 public:
  Plan(Operation operation, std::string_view algorithm, int ranks, int root, int lanes, int blocks);

  Operation operation() const noexcept { return operation_; }
  const std::string& algorithm() const noexcept { return algorithm_; }
  int ranks() const noexcept { return ranks_; }
  int root() const noexcept { return root_; }  ///< 0 where the operation has none
  int lanes() const noexcept { return lanes_; }
  int blocks() const noexcept { return blocks_; }  ///< per lane

  std::vector<Step>& steps(int rank, int lane) { return lists_[list_index(rank, lane)]; }
  const std::vector<Step>& steps(int rank, int lane) const { return lists_[list_index(rank, lane)]; }

 private:
  std::size_t list_index(int rank, int lane) const noexcept {
    return static_cast<std::size_t>(rank) * static_cast<std::size_t>(lanes_) + static_cast<std::size_t>(lane);
  }

  Operation operation_;
  std::string algorithm_;
  int ranks_;
  int root_;
  int lanes_;
  int blocks_;
  std::vector<std::vector<Step>> lists_;
};

}  // namespace slipring::collectives
