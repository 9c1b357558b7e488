// Buffer: a user buffer of one rank, in private memory (page-aligned) or in the communicator's heap.
// Owns its memory; throws Error or bad_alloc when there is none. The communicator outlives it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "slipring/communicator.h"

namespace slipring::tools::perf {

class Buffer {
 public:
  Buffer(Communicator& comm, std::size_t bytes, bool heap) : comm_(comm), bytes_(bytes), heap_(heap) {
    const std::size_t room = (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
    data_ = static_cast<std::byte*>(heap ? comm.heap_allocate(room) : std::aligned_alloc(kAlignment, room));
    if (!data_) throw std::bad_alloc();
  }
  ~Buffer() { heap_ ? comm_.heap_free(data_) : std::free(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  static constexpr std::size_t kAlignment = 4096;
  Communicator& comm_;
  std::byte* data_ = nullptr;
  std::size_t bytes_;
  bool heap_;
};

}  // namespace slipring::tools::perf
