#include "engine/spawn/rank_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/file_descriptor.h"
#include "base/status.h"

namespace slipring::engine {
namespace {

// What a child reports when it cannot enter the program; nothing at all if it can.
struct StartFailure {
  int error_number = 0;
  int step = 0;  // index into kSteps
};
constexpr const char* kSteps[] = {"setpgid", "prctl(PR_SET_PDEATHSIG)", "open of /dev/null", "dup2",
                                  "execve"};

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

[[noreturn]] void fail(int report_fd, int step) {
  const StartFailure failure{errno, step};
  while (write(report_fd, &failure, sizeof(failure)) < 0 && errno == EINTR) {
  }
  _exit(127);
}

// After fork in a process that may have threads: async-signal-safe calls only.
[[noreturn]] void enter_program(const ProcessImage& image, char* const* arguments, char* const* environment,
                                pid_t parent, int report_fd) {
  if (setpgid(0, image.group) != 0) fail(report_fd, 0);
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail(report_fd, 1);
  if (getppid() != parent) _exit(127);  // it died before the line above could be told
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0) fail(report_fd, 2);
  if (dup2(null, STDIN_FILENO) < 0) fail(report_fd, 3);
  if (image.output_fd >= 0 && dup2(image.output_fd, STDOUT_FILENO) < 0) fail(report_fd, 3);
  if (image.error_fd >= 0 && dup2(image.error_fd, STDERR_FILENO) < 0) fail(report_fd, 3);
  sigprocmask(SIG_SETMASK, &image.signal_mask, nullptr);
  execve(image.path.c_str(), arguments, environment);
  fail(report_fd, 4);
}

bool is_program(const std::string& path) {
  struct stat about;
  return stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

Result<pid_t> start_process(const ProcessImage& image) {
  const std::vector<char*> arguments = pointers_to(image.arguments);
  const std::vector<char*> environment = pointers_to(image.environment);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return base::errno_error(errno, "pipe");
  const base::FileDescriptor read_end(ends[0]);
  base::FileDescriptor write_end(ends[1]);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return base::errno_error(errno, "fork");
  if (pid == 0) enter_program(image, arguments.data(), environment.data(), parent, write_end.get());
  write_end.reset();
  StartFailure failure;
  ssize_t n = 0;
  // Ends at once: exec closes the other end, and so does any kind of death.
  do {
    n = read(read_end.get(), &failure, sizeof(failure));
  } while (n < 0 && errno == EINTR);
  if (n != static_cast<ssize_t>(sizeof(failure))) return pid;
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  const auto step = static_cast<std::size_t>(failure.step);
  return base::errno_error(
      failure.error_number,
      fmt::format("{} for program {}", step < std::size(kSteps) ? kSteps[step] : "start", image.path));
}

Result<std::string> find_program(const std::string& program) {
  if (program.empty()) return base::error(StatusCode::invalid_argument, "no program given");
  if (program.find('/') != std::string::npos) {
    if (is_program(program)) return program;
    return base::error(StatusCode::invalid_argument, "program {} is no executable file", program);
  }
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path;
  for (;;) {
    const std::size_t colon = rest.find(':');
    const std::string_view folder = rest.substr(0, colon);
    std::string candidate = (folder.empty() ? std::string(".") : std::string(folder)) + "/" + program;
    if (is_program(candidate)) return candidate;
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  return base::error(StatusCode::invalid_argument,
                     "program {} is in no folder of PATH; write ./{} for one in this folder", program,
                     program);
}

std::string describe_end(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return fmt::format("exited with status {}", WEXITSTATUS(wait_status));
  const int number = WTERMSIG(wait_status);
  const char* description = sigdescr_np(number);
  return fmt::format("was killed by signal {} ({})", number,
                     description == nullptr ? "unknown" : description);
}

int shell_status(int wait_status) noexcept {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace slipring::engine
