// A rank for tests of slipring-run: does what its first argument says.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "engine/rank_environment.h"
#include "engine/store/gather_all.h"
#include "engine/store/store.h"

namespace {

using namespace slipring;

void write_pid(const std::string& directory, const std::string& who) {
  // Renamed into place, so that a reader sees a whole number.
  const std::string path = directory + "/" + who;
  std::ofstream(path + ".new") << getpid();
  std::rename((path + ".new").c_str(), path.c_str());
}

[[noreturn]] void sleep_for_ever() {
  for (;;) pause();
}

int meet(const engine::RankEnvironment& me) {
  const auto deadline = base::Deadline::after(std::chrono::seconds(60));
  Result<std::shared_ptr<engine::Store>> store = engine::open_store(me.store_url, me.job_token, deadline);
  if (!store) return std::fprintf(stderr, "%s\n", store.status().message().c_str()), 10;
  const auto values =
      engine::gather_all(**store, "probe", me.rank, me.size, std::to_string(me.rank), deadline);
  if (!values) return std::fprintf(stderr, "%s\n", values.status().message().c_str()), 11;
  return values.value().back() == std::to_string(me.size - 1) ? 0 : 12;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  const std::string argument = argc > 2 ? argv[2] : "";
  Result<engine::RankEnvironment> me = engine::rank_environment({});
  if (!me) return std::fprintf(stderr, "%s\n", me.status().message().c_str()), 9;
  const bool is_chosen = me->rank == (argc > 3 ? std::atoi(argv[3]) : 0);

  if (what == "meet") return meet(*me);
  if (what == "exit") {  // exit STATUS RANK: the others sleep
    if (is_chosen) return std::atoi(argument.c_str());
    sleep_for_ever();
  }
  if (what == "kill") {  // kill SIGNAL RANK: the others sleep
    if (is_chosen) raise(std::atoi(argument.c_str()));
    sleep_for_ever();
  }
  if (what == "exit-late") {  // the chosen rank exits at once, the others a little later with 0
    if (is_chosen) return std::atoi(argument.c_str());
    usleep(200'000);
    std::printf("rank %d went on\n", me->rank);
    return 0;
  }
  if (what == "pids") {  // leaves its pid and a grandchild's in a directory, then sleeps through SIGTERM
    signal(SIGTERM, SIG_IGN);
    if (fork() == 0) {
      write_pid(argument, "grandchild" + std::to_string(me->rank));
      sleep_for_ever();
    }
    write_pid(argument, "rank" + std::to_string(me->rank));
    sleep_for_ever();
  }
  if (what == "catch") {  // exits with the number of the signal that it is sent
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaddset(&set, number);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    write_pid(argument, "rank" + std::to_string(me->rank));
    int number = 0;
    sigwait(&set, &number);
    return number;
  }
  if (what ==
      "mask") {  // 0 if it was started as from a shell: no signal blocked, nothing to read, no stray files
    sigset_t set;
    sigprocmask(SIG_BLOCK, nullptr, &set);
    for (int number = 1; number < 32; ++number) {
      if (sigismember(&set, number) == 1) return number;
    }
    char byte;
    if (read(STDIN_FILENO, &byte, 1) != 0) return 40;
    for (int fd = 3; fd < 64; ++fd) {
      if (fcntl(fd, F_GETFD) >= 0) return 100 + fd;
    }
    return 0;
  }
  if (what == "lines") {
    for (int i = 0; i < 200; ++i) std::printf("line %d of rank %d\n", i, me->rank);
    std::fflush(stdout);
    std::fprintf(stderr, "to error");  // without an end of line
    return 0;
  }
  return 99;
}
