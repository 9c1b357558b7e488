// Where a call's memory lies: an address and the device that it belongs to. A plain pointer is host memory, so
//   comm.all_reduce(x.data(), y.data(), n, slipring::DType::f32, slipring::ReduceOp::sum);
// says all there is to say. Views: they own nothing.
#ifndef SLIPRING_BUFFER_H
#define SLIPRING_BUFFER_H

#include <cstddef>
#include <cstdint>

namespace slipring {

/// Numbers are fixed: new kinds are appended.
enum class DeviceKind : std::uint8_t { host = 0 };

struct Device {
  DeviceKind kind = DeviceKind::host;
  std::int32_t index = 0;
};

struct Buffer {
  void* data = nullptr;
  Device device;

  constexpr Buffer(void* memory, Device where = {}) noexcept : data(memory), device(where) {}
  constexpr Buffer(std::nullptr_t) noexcept {}
};

struct ConstBuffer {
  const void* data = nullptr;
  Device device;

  constexpr ConstBuffer(const void* memory, Device where = {}) noexcept : data(memory), device(where) {}
  constexpr ConstBuffer(const Buffer& buffer) noexcept : data(buffer.data), device(buffer.device) {}
  constexpr ConstBuffer(std::nullptr_t) noexcept {}
};

}  // namespace slipring

#endif
