#include "base/status.h"

#include <system_error>

namespace slipring {

std::string_view status_code_name(StatusCode code) noexcept {
  switch (code) {
    case StatusCode::ok: return "ok";
    case StatusCode::invalid_argument: return "invalid_argument";
    case StatusCode::timeout: return "timeout";
    case StatusCode::peer_lost: return "peer_lost";
    case StatusCode::mismatch: return "mismatch";
    case StatusCode::aborted: return "aborted";
    case StatusCode::closed: return "closed";
    case StatusCode::out_of_memory: return "out_of_memory";
    case StatusCode::unavailable: return "unavailable";
    case StatusCode::unsupported: return "unsupported";
    case StatusCode::system_error: return "system_error";
    case StatusCode::corrupt: return "corrupt";
    case StatusCode::would_block: return "would_block";
  }
  return "unknown";
}

Status::Status(StatusCode code, std::string message)
    : rep_(code == StatusCode::ok ? nullptr : new Rep{code, std::move(message)}) {}

Status::Rep* Status::clone(const Rep* rep) {
  if (!rep) return nullptr;
  return rep->is_static ? const_cast<Rep*>(rep) : new Rep(*rep);
}

Status::Status(const Status& other) : rep_(clone(other.rep_.get())) {}

Status& Status::operator=(const Status& other) {
  if (this != &other) rep_.reset(clone(other.rep_.get()));
  return *this;
}

Status Status::would_block() noexcept {
  static Rep rep{StatusCode::would_block, "nothing to take or no room now", true};
  Status status;
  status.rep_.reset(&rep);
  return status;
}

const std::string& Status::message() const noexcept {
  static const std::string empty;
  return rep_ ? rep_->message : empty;
}

std::string Status::to_string() const {
  if (!rep_) return "ok";
  return std::string(status_code_name(rep_->code)) + ": " + rep_->message;
}

Status Status::with(std::string_view clause) && {
  if (!rep_) return {};
  if (rep_->is_static) rep_.reset(new Rep{rep_->code, rep_->message});
  rep_->message.append("; ").append(clause);
  return std::move(*this);
}

Error::~Error() = default;

namespace base {

Status errno_error(int error_number, std::string_view what) {
  return error(StatusCode::system_error, "{}: {} (errno {})", what,
               std::generic_category().message(error_number), error_number);
}

}  // namespace base
}  // namespace slipring
