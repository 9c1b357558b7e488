#include "base/fault.h"

#include <signal.h>
#include <unistd.h>

#include <regex>
#include <string>

#include "base/status.h"

namespace slipring::base {

Result<FaultPoint> FaultPoint::parse(std::string_view text, int own_rank, std::uint64_t start) {
  FaultPoint fault;
  if (text.empty()) return fault;
  static const std::regex form("(kill|exit|stop) rank ([0-9]{1,9}) op ([0-9]{1,18})( chunk ([0-9]{1,18}))?");
  std::cmatch words;
  if (!std::regex_match(text.data(), text.data() + text.size(), words, form))
    return error(StatusCode::invalid_argument, "test.fault \"{}\" is not of the form \"kill|exit|stop rank R op K [chunk J]\"",
                 text);
  fault.armed_ = std::stoi(words[2]) == own_rank;
  fault.action_ = words[1] == "kill" ? Action::kill : words[1] == "exit" ? Action::exit : Action::stop;
  fault.operation_ = start + std::stoull(words[3]);
  if (words[5].matched) fault.chunk_ = std::stoull(words[5]);
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
