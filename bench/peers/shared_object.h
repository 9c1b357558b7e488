// One zeroed object that all ranks of a contender map, for contenders without a library that would do it.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

#include "turn.h"

namespace turn {

/// A name in /dev/shm that carries the contender's folder; the last rank removes it, and the mappings live on.
template <class T>
T& map_shared(const Seat& seat, const std::string& kind) {
  std::string name = "/slipring-" + kind + "-";
  for (const char c : seat.directory) name += c == '/' ? '-' : c;
  int fd = -1;
  for (int tries = 0; fd < 0 && tries < 5000; ++tries) {
    fd = ::shm_open(name.c_str(), seat.rank == 0 ? O_RDWR | O_CREAT : O_RDWR, 0600);
    if (fd < 0) ::usleep(2000);
  }
  if (fd < 0) throw std::runtime_error("shared memory " + name + " cannot be opened");
  if (seat.rank == 0 && ::ftruncate(fd, sizeof(T)) != 0) throw std::runtime_error("ftruncate failed");
  while (::lseek(fd, 0, SEEK_END) < static_cast<off_t>(sizeof(T))) ::usleep(1000);
  void* memory = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  ::close(fd);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap failed");
  return *static_cast<T*>(memory);
}

inline void unlink_shared(const Seat& seat, const std::string& kind) {
  std::string name = "/slipring-" + kind + "-";
  for (const char c : seat.directory) name += c == '/' ? '-' : c;
  ::shm_unlink(name.c_str());
}

}  // namespace turn
