// gather_all: every rank contributes one value and gets everybody's, in rank order.
//
// Each (store, prefix) pair serves one gathering: a later one needs another prefix. A rank outside [0, size),
// two callers that claim the same rank, and ranks that were told different sizes get an error that shows
// both sides. On timeout the error names the ranks that are missing and those that came. Leaves its keys in
// the store. Any thread; bounded by the deadline plus kStoreAnswerTimeout.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "engine/store/store.h"
#include "slipring/status.h"

namespace slipring::engine {

/// Receives one sentence about who is awaited, every few seconds of waiting.
using WaitReport = std::function<void(std::string_view)>;

/// Room for the caller's value; the rest of a store value carries who the rank is.
inline constexpr std::size_t kMaxGatherValueBytes = kMaxStoreValueBytes - 1024;

struct GatherOptions {
  WaitReport report;  ///< empty: a warning of subsystem store
  std::chrono::milliseconds report_every{5000};
};

Result<std::vector<std::string>> gather_all(Store& store, std::string_view prefix, int rank, int size,
                                            std::string_view value, const base::Deadline& deadline,
                                            const GatherOptions& options = {});

/// "0-3, 7": ascending ranks as error texts show them.
std::string format_ranks(std::span<const int> ranks);

}  // namespace slipring::engine
