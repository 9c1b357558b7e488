// More than 2^31 elements and more than 2^32 bytes. The buffers are small files that are mapped many times in a row: each
// element's result depends on that element alone, so that all places that share a page get the same value.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "slipring/communicator.h"

namespace slipring::tests {
namespace {

constexpr std::size_t kPeriod = std::size_t{32} << 20;

class Repeated {
 public:
  explicit Repeated(std::size_t bytes) : bytes_((bytes + kPeriod - 1) / kPeriod * kPeriod) {
    const int file = ::memfd_create("repeated", MFD_CLOEXEC);
    if (file < 0 || ::ftruncate(file, kPeriod) != 0) throw std::runtime_error("no file for the buffer");
    void* room = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) throw std::runtime_error("no address space for the buffer");
    data_ = static_cast<std::byte*>(room);
    for (std::size_t at = 0; at < bytes_; at += kPeriod)
      if (::mmap(data_ + at, kPeriod, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
        throw std::runtime_error("the buffer cannot be mapped");
    ::close(file);
  }
  ~Repeated() { ::munmap(data_, bytes_); }
  Repeated(const Repeated&) = delete;
  Repeated& operator=(const Repeated&) = delete;

  template <class T>
  T* as() { return reinterpret_cast<T*>(data_); }

 private:
  std::size_t bytes_;
  std::byte* data_ = nullptr;
};

template <class T>
int wrong_after_all_reduce(Communicator& comm, std::size_t count, DType dtype) {
  Repeated in(count * sizeof(T)), out(count * sizeof(T));
  constexpr std::size_t kElements = kPeriod / sizeof(T);
  for (std::size_t i = 0; i < kElements; ++i) in.as<T>()[i] = static_cast<T>(i % 41 + static_cast<unsigned>(comm.rank()));
  std::memset(out.as<std::byte>(), 0x55, kPeriod);
  comm.all_reduce(in.as<T>(), out.as<T>(), count, dtype, ReduceOp::sum);
  int wrong = 0;
  for (std::size_t i = 0; i < kElements; ++i) wrong += out.as<T>()[i] != static_cast<T>(2 * (i % 41) + 1);
  return wrong;
}

TEST(LargeCounts, above_2_to_the_31_elements) {
  std::atomic<int> wrong{0};
  run_threads(2, [&](Communicator& comm) { wrong += wrong_after_all_reduce<std::int8_t>(comm, (std::size_t{1} << 31) + 5, DType::i8); });
  EXPECT_EQ(wrong, 0);
}

TEST(LargeCounts, above_2_to_the_32_bytes) {
  std::atomic<int> wrong{0};
  run_threads(2, [&](Communicator& comm) { wrong += wrong_after_all_reduce<double>(comm, (std::size_t{1} << 29) + 3, DType::f64); });
  EXPECT_EQ(wrong, 0);
}

TEST(LargeCounts, of_a_move_above_2_to_the_31_elements) {
  std::atomic<int> wrong{0};
  run_threads(2, [&](Communicator& comm) {
    const std::size_t count = (std::size_t{1} << 31) + 5;
    Repeated data(count);
    std::memset(data.as<std::byte>(), comm.rank() == 1 ? 7 : 0, kPeriod);
    comm.broadcast(data.as<std::uint8_t>(), count, DType::u8, 1);
    for (std::size_t i = 0; i < kPeriod; ++i) wrong += data.as<std::uint8_t>()[i] != 7;
  });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace slipring::tests
