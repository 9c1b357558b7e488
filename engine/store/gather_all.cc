#include "engine/store/gather_all.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/log.h"
#include "base/status.h"
#include "engine/store/job_token.h"

namespace slipring::engine {
namespace {

// What a rank claims its key with. The random id makes every caller's record unique, so that a second caller
// of the same rank finds a record that is not its own.
struct RankRecord {
  std::array<std::uint8_t, 16> id{};
  std::uint32_t size = 0;
  std::uint32_t pid = 0;
  std::string host;  // shown in errors only
  std::string value;
};

constexpr std::size_t kMaxHostBytes = 255;
constexpr std::size_t kRecordHeaderBytes = 16 + 4 + 4 + 1;

std::string encode(const RankRecord& record) {
  std::string bytes(reinterpret_cast<const char*>(record.id.data()), record.id.size());
  for (const std::uint32_t number : {record.size, record.pid}) {
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(number >> shift));
  }
  bytes.push_back(static_cast<char>(record.host.size()));
  return bytes + record.host + record.value;
}

Result<RankRecord> decode(std::string_view key, std::string_view bytes) {
  RankRecord record;
  if (bytes.size() < kRecordHeaderBytes) {
    return base::error(StatusCode::corrupt, "store key \"{}\" holds {} bytes, too few for a rank's record",
                       key, bytes.size());
  }
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  std::copy_n(data, record.id.size(), record.id.begin());
  for (int i = 0; i < 4; ++i) {
    record.size |= std::uint32_t{data[16 + i]} << (8 * i);
    record.pid |= std::uint32_t{data[20 + i]} << (8 * i);
  }
  const std::size_t host_bytes = data[24];
  if (bytes.size() < kRecordHeaderBytes + host_bytes) {
    return base::error(StatusCode::corrupt, "store key \"{}\" names a host of {} bytes in a record of {}",
                       key, host_bytes, bytes.size());
  }
  record.host = bytes.substr(kRecordHeaderBytes, host_bytes);
  record.value = bytes.substr(kRecordHeaderBytes + host_bytes);
  return record;
}

Result<RankRecord> my_record(int size, std::string_view value) {
  RankRecord record;
  if (Status status = fill_random(record.id); !status) return status;
  record.size = static_cast<std::uint32_t>(size);
  record.pid = static_cast<std::uint32_t>(getpid());
  char host[kMaxHostBytes + 1] = {};
  if (gethostname(host, sizeof(host) - 1) == 0) record.host.assign(host, strnlen(host, kMaxHostBytes));
  record.value = value;
  return record;
}

std::string rank_key(std::string_view prefix, int rank) {
  return fmt::format("{}/rank/{}", prefix, rank);
}

Status check_arguments(std::string_view prefix, int rank, int size, std::string_view value) {
  if (size < 1 || rank < 0 || rank >= size) {
    return base::error(StatusCode::invalid_argument,
                       "rank {} outside 0 to size - 1, size {}; check SLIPRING_RANK and SLIPRING_SIZE", rank,
                       size);
  }
  if (value.size() > kMaxGatherValueBytes) {
    return base::error(StatusCode::invalid_argument,
                       "rank {} contributes {} bytes, above the limit {}; prefix \"{}\"", rank, value.size(),
                       kMaxGatherValueBytes, prefix);
  }
  return check_store_key(rank_key(prefix, size - 1));
}

Status claim_rank(Store& store, const std::string& key, int rank, const RankRecord& mine) {
  const std::string bytes = encode(mine);
  Result<std::string> present = store.claim(key, bytes);
  if (!present) return std::move(present).status();
  if (*present == bytes) return {};
  Result<RankRecord> other = decode(key, *present);
  if (!other) return std::move(other).status();
  return base::error(
      StatusCode::mismatch,
      "rank {} is claimed twice: first by pid {} on host {}, now by pid {} on host {}; store {}; give "
      "every process its own SLIPRING_RANK, and every job its own store or token",
      rank, other->pid, other->host, mine.pid, mine.host, store.url());
}

class Gathering {
 public:
  Gathering(Store& store, std::string_view prefix, int rank, int size, const GatherOptions& options)
      : store_(store),
        prefix_(prefix),
        rank_(rank),
        size_(size),
        options_(options),
        next_report_(base::Deadline::after(options.report_every)),
        came_(size, false),
        values_(size) {}

  void accept_own(std::string_view value) {
    came_[rank_] = true;
    values_[rank_] = value;
  }

  // Waits for one rank after the other; the wait for the first missing one is cut at every report.
  Status collect(const base::Deadline& deadline) {
    for (int peer = 0; peer < size_; ++peer) {
      while (!came_[peer]) {
        const bool reports = next_report_.left() < deadline.left();
        Result<std::string> bytes = store_.get(rank_key(prefix_, peer), reports ? next_report_ : deadline);
        if (bytes) {
          if (Status status = accept(peer, *bytes); !status) return status;
          continue;
        }
        if (bytes.status().code() != StatusCode::timeout) return std::move(bytes).status();
        if (Status status = look_for_all(); !status) return status;
        if (came_[peer]) continue;
        if (deadline.passed()) return missing_ranks();
        if (reports) report_missing();
      }
    }
    return {};
  }

  std::vector<std::string> take_values() { return std::move(values_); }

 private:
  Status accept(int peer, std::string_view bytes) {
    Result<RankRecord> record = decode(rank_key(prefix_, peer), bytes);
    if (!record) return std::move(record).status();
    if (record->size != static_cast<std::uint32_t>(size_)) {
      return base::error(
          StatusCode::mismatch,
          "rank {} was started with size {}, rank {} (pid {} on host {}) with size {}; store {}; give "
          "every rank the same SLIPRING_SIZE",
          rank_, size_, peer, record->pid, record->host, record->size, store_.url());
    }
    came_[peer] = true;
    values_[peer] = std::move(record->value);
    return {};
  }

  // So that an error names exactly who is missing, not everybody after the first.
  Status look_for_all() {
    for (int peer = 0; peer < size_; ++peer) {
      if (came_[peer]) continue;
      Result<std::optional<std::string>> bytes = store_.try_get(rank_key(prefix_, peer));
      if (!bytes) return std::move(bytes).status();
      if (!bytes->has_value()) continue;
      if (Status status = accept(peer, **bytes); !status) return status;
    }
    return {};
  }

  std::string ranks_that(bool came) const {
    std::vector<int> ranks;
    for (int peer = 0; peer < size_; ++peer) {
      if (came_[peer] == came) ranks.push_back(peer);
    }
    return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", format_ranks(ranks));
  }

  std::int64_t waited_ms() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(base::Clock::now() - begin_).count();
  }

  void report_missing() {
    const std::string sentence =
        fmt::format("rank {} waits for {} since {} ms; {} came; prefix \"{}\" store {}", rank_,
                    ranks_that(false), waited_ms(), ranks_that(true), prefix_, store_.url());
    if (options_.report) {
      options_.report(sentence);
    } else {
      SLIPRING_LOG(warn, store, "{}", sentence);
    }
    next_report_ = base::Deadline::after(options_.report_every);
  }

  Status missing_ranks() const {
    return base::error(
        StatusCode::timeout,
        "{} missing after {} ms; {} came; seen by rank {}, prefix \"{}\" store {}; look at what became "
        "of the missing ranks, or raise startup.timeout_ms",
        ranks_that(false), waited_ms(), ranks_that(true), rank_, prefix_, store_.url());
  }

  Store& store_;
  const std::string prefix_;
  const int rank_;
  const int size_;
  const GatherOptions& options_;
  const base::Clock::time_point begin_ = base::Clock::now();
  base::Deadline next_report_;
  std::vector<bool> came_;
  std::vector<std::string> values_;
};

}  // namespace

std::string format_ranks(std::span<const int> ranks) {
  std::string text;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += last == first ? fmt::format("{}", ranks[first])
                          : fmt::format("{}{}{}", ranks[first], last == first + 1 ? ", " : "-", ranks[last]);
    first = last + 1;
  }
  return text;
}

Result<std::vector<std::string>> gather_all(Store& store, std::string_view prefix, int rank, int size,
                                            std::string_view value, const base::Deadline& deadline,
                                            const GatherOptions& options) {
  if (Status status = check_arguments(prefix, rank, size, value); !status) return status;
  Result<RankRecord> mine = my_record(size, value);
  if (!mine) return std::move(mine).status();
  if (Status status = claim_rank(store, rank_key(prefix, rank), rank, *mine); !status) return status;
  Gathering gathering(store, prefix, rank, size, options);
  gathering.accept_own(value);
  if (Status status = gathering.collect(deadline); !status) return status;
  return gathering.take_values();
}

}  // namespace slipring::engine
