// Memory between two pages that fault: a read or write of one byte past either end kills the test, also in
// instructions that sanitizers do not see.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <new>

namespace slipring::base {

class GuardedBuffer {
 public:
  explicit GuardedBuffer(std::size_t bytes)
      : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))), bytes_((bytes + page_ - 1) / page_ * page_) {
    void* mapped = mmap(nullptr, bytes_ + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<std::byte*>(mapped);
    if (mprotect(begin(), bytes_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  }
  ~GuardedBuffer() { munmap(base_, bytes_ + 2 * page_); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  std::byte* begin() const { return base_ + page_; }
  std::byte* end() const { return begin() + bytes_; }

 private:
  std::size_t page_;
  std::size_t bytes_;
  std::byte* base_ = nullptr;
};

}  // namespace slipring::base
