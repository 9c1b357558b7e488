#include "base/fault.h"

#include <signal.h>
#include <unistd.h>

#include <sstream>
#include <string>

#include "base/status.h"

namespace slipring::base {

Result<FaultPoint> FaultPoint::parse(std::string_view text, int own_rank, std::uint64_t start) {
  FaultPoint fault;
  if (text.empty()) return fault;
  std::istringstream in{std::string(text)};
  std::string action, rank_word, op_word, chunk_word;
  int rank = -1;
  std::uint64_t operation = 0;
  in >> action >> rank_word >> rank >> op_word >> operation;
  const bool head = !in.fail() && rank_word == "rank" && op_word == "op";
  if (head && (in >> chunk_word) && !(chunk_word == "chunk" && (in >> fault.chunk_))) in.setstate(std::ios::badbit);
  if (!head || in.bad() || (action != "kill" && action != "exit" && action != "stop"))
    return error(StatusCode::invalid_argument, "test.fault \"{}\" is not of the form \"kill|exit|stop rank R op K [chunk J]\"",
                 text);
  fault.armed_ = rank == own_rank;
  fault.action_ = action == "kill" ? Action::kill : action == "exit" ? Action::exit : Action::stop;
  fault.operation_ = start + operation;
  return fault;
}

void FaultPoint::strike(std::uint64_t operation, std::uint64_t chunk) const {
  if (operation != operation_ || chunk != chunk_) return;
  switch (action_) {
    case Action::kill: ::kill(::getpid(), SIGKILL); break;
    case Action::exit: ::_exit(3);
    case Action::stop: ::kill(::getpid(), SIGSTOP); break;
  }
}

}  // namespace slipring::base
