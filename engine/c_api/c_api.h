// The edge of the C ABI: what stands behind its handles, and how an exception becomes a number and a text.
#pragma once

#include <exception>
#include <new>
#include <span>
#include <utility>

#include "base/status.h"
#include "slipring/communicator.h"
#include "slipring/slipring.h"

struct slipring_comm {
  slipring::Communicator owned;
  slipring::Communicator* comm = &owned;  // or the process's world

  explicit slipring_comm(slipring::Communicator&& c) : owned(std::move(c)) {}
  explicit slipring_comm(slipring::Communicator& world) : comm(&world) {}
  slipring_comm(const slipring_comm&) = delete;
  slipring_comm& operator=(const slipring_comm&) = delete;
};
struct slipring_producer {
  slipring::Producer producer;
};
struct slipring_consumer {
  slipring::Consumer consumer;
};

namespace slipring::engine {

/// Remembers the text for slipring_last_error and returns the number.
[[gnu::cold]] slipring_status_t remember(const Status& status) noexcept;

template <class Body>
slipring_status_t guarded(Body&& body) noexcept {
  try {
    body();
    return SLIPRING_OK;
  } catch (const Error& e) {
    return remember(e.status());
  } catch (const std::bad_alloc&) {
    return remember(Status(StatusCode::out_of_memory, "the process is out of memory"));
  } catch (const std::exception& e) {
    return remember(Status(StatusCode::system_error, e.what()));
  }
}

[[noreturn, gnu::cold]] void refuse_null(const char* name);

template <class T>
T& deref(T* pointer, const char* name) {
  if (pointer == nullptr) [[unlikely]] refuse_null(name);
  return *pointer;
}

inline Communicator& use(slipring_comm_t* comm) { return *deref(comm, "comm").comm; }
inline ConstBuffer buffer(slipring_const_buffer_t b) noexcept {
  return {b.data, Device{static_cast<DeviceKind>(b.device_kind), b.device_index}};
}
inline Buffer buffer(slipring_buffer_t b) noexcept { return {b.data, Device{static_cast<DeviceKind>(b.device_kind), b.device_index}}; }
/// Numbers outside of the enumeration stay so, and are refused by the call.
inline DType dtype(slipring_dtype_t number) noexcept { return static_cast<DType>(number < 0 || number > 255 ? 255 : number); }
inline ReduceOp redop(slipring_redop_t number) noexcept { return static_cast<ReduceOp>(number < 0 || number > 255 ? 255 : number); }

/// One count per rank.
inline std::span<const size_t> per_rank(const Communicator& comm, const size_t* counts, const char* name) {
  return {&deref(counts, name), static_cast<size_t>(comm.size())};
}
/// As per_rank on the root, where alone they are looked at.
inline std::span<const size_t> on_root(const Communicator& comm, const size_t* counts, int root) {
  return comm.rank() == root ? per_rank(comm, counts, "counts") : std::span<const size_t>();
}
inline Shape shape_of(const size_t* shape, size_t dims) { return {&deref(shape, "shape"), dims}; }

}  // namespace slipring::engine
