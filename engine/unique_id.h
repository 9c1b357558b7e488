// UniqueId: the text that create_unique_id gives out, taken apart: which store, which secret, which meeting there.
#pragma once

#include <string>
#include <string_view>

#include "slipring/status.h"

namespace slipring::engine {

struct UniqueId {
  std::string meeting;  ///< name of the group in the store
  std::string job_token;
  std::string store_url;

  std::string to_string() const;
  static bool is_one(std::string_view text) noexcept;
  static Result<UniqueId> parse(std::string_view text);
  /// A new meeting in the store of this process, which is started with the first.
  static Result<UniqueId> create(const std::string& host);
};

}  // namespace slipring::engine
