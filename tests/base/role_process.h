// RoleProcess: the test program started anew in a named role, so that a test has real peer processes with
// nothing inherited. A role is a function registered in the same program; it talks to the test by lines.
// Every wait is bounded, and a role dies with its test. One thread per object.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace slipring::tests {

using RoleArguments = std::vector<std::string>;

/// Static registration: `const Role attacher("attacher", [](const RoleArguments&) { ... return 0; });`
struct Role {
  Role(const char* name, int (*body)(const RoleArguments& arguments));
};

/// In a role: a line to the test / from the test (empty at its end).
void say(const std::string& line);
std::string hear();

class RoleProcess {
 public:
  explicit RoleProcess(const std::string& role, const RoleArguments& arguments = {});
  ~RoleProcess();  ///< kills
  RoleProcess(const RoleProcess&) = delete;
  RoleProcess& operator=(const RoleProcess&) = delete;

  pid_t pid() const { return pid_; }
  void write_line(const std::string& line);
  /// Empty once the role has ended, or after 60 s.
  std::string read_line();
  void send_signal(int number);
  /// Exit status, 128 + signal, or -1 after 60 s.
  int wait();
  /// As wait, but leaves the zombie.
  bool wait_without_reaping();

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
  bool reaped_ = false;
};

}  // namespace slipring::tests
