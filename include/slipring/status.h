// Status, Result and Error: how Slipring reports failure.
//
// Inside the engine errors are values: a function returns Status, or Result<T> when it has something to hand
// over. The public C++ API turns a bad Status into an Error exception at its edge. A Status that is ok costs
// one null pointer and never allocates. The text grows one clause per layer: the cause first recorded, then
// where (rank, peer, operation, transport), then the remedy. Value types; not for concurrent modification.
#ifndef SLIPRING_STATUS_H
#define SLIPRING_STATUS_H

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "slipring/export.h"

namespace slipring {

enum class StatusCode : int {
  ok = 0,
  invalid_argument = 1,   ///< the caller passed something that can never work
  timeout = 2,            ///< a deadline passed; the text says who was awaited
  peer_lost = 3,          ///< a peer's process is gone or its connection is lost
  mismatch = 4,           ///< ranks called different operations; the text shows both sides
  aborted = 5,            ///< abort() was called here or on a peer
  closed = 6,             ///< the channel or communicator was closed in good order
  out_of_memory = 7,      ///< memory, /dev/shm or the heap is exhausted; the text has needed and free bytes
  unavailable = 8,        ///< the system lacks or denies something (a device, a system call, a kernel feature)
  unsupported = 9,        ///< a valid request that this build or data type does not offer
  system_error = 10,      ///< a system call failed; the text has its name and errno
  corrupt = 11,           ///< data from a peer, a segment or the network failed its checks
  would_block = 12,       ///< a try_ call found no room or no data; not a failure
};

/// Stable lower-case name of a code, e.g. "peer_lost".
SLIPRING_API std::string_view status_code_name(StatusCode code) noexcept;

class [[nodiscard]] SLIPRING_API Status {
 public:
  Status() noexcept = default;  ///< ok
  Status(StatusCode code, std::string message);
  Status(const Status& other);
  Status& operator=(const Status& other);
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;
  ~Status() = default;

  bool is_ok() const noexcept { return rep_ == nullptr; }
  explicit operator bool() const noexcept { return is_ok(); }
  StatusCode code() const noexcept { return rep_ ? rep_->code : StatusCode::ok; }
  const std::string& message() const noexcept;
  /// "peer_lost: <message>", or "ok".
  std::string to_string() const;
  /// A would_block Status; never allocates, so that polling is free.
  static Status would_block() noexcept;
  /// The same failure with one more clause appended ("; <clause>"). No effect on ok.
  Status with(std::string_view clause) &&;

 private:
  struct Rep {
    StatusCode code;
    std::string message;
    bool is_static = false;
  };
  struct Drop {
    void operator()(const Rep* rep) const noexcept {
      if (!rep->is_static) delete rep;
    }
  };
  static Rep* clone(const Rep* rep);
  std::unique_ptr<Rep, Drop> rep_;
};

/// Either a T or a Status that is not ok. value() requires is_ok().
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}           // NOLINT: implicit by design
  Result(Status status) : status_(std::move(status)) {}   // NOLINT: implicit by design
  bool is_ok() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return is_ok(); }
  const Status& status() const& noexcept { return status_; }
  Status status() && noexcept { return std::move(status_); }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T& operator*() & { return *value_; }
  T* operator->() { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

/// Thrown by the public C++ API; what() is Status::to_string().
class SLIPRING_API Error : public std::runtime_error {
 public:
  explicit Error(Status status) : std::runtime_error(status.to_string()), status_(std::move(status)) {}
  Error(const Error&) = default;
  Error& operator=(const Error&) = default;
  ~Error() override;
  StatusCode code() const noexcept { return status_.code(); }
  const Status& status() const noexcept { return status_; }

 private:
  Status status_;
};

}  // namespace slipring

#endif
