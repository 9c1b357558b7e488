#include "engine/unique_id.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>

#include "base/status.h"
#include "engine/store/job_token.h"
#include "engine/store/tcp_store_server.h"
#include "slipring/world.h"

namespace slipring::engine {
namespace {

constexpr std::string_view kPrefix = "slipring-id-1,";

struct Host {
  std::string token;
  std::unique_ptr<TcpStoreServer> server;
};

// One store per address for all meetings; it goes with the process. Never destroyed: ranks may join while statics go.
struct Hosts {
  std::mutex mutex;
  std::map<std::string, Host> by_address;
};
Hosts& hosts() {
  static auto* const instance = new Hosts;
  return *instance;
}

bool printable(std::string_view text) noexcept {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127 && c != ','; });
}

}  // namespace

std::string UniqueId::to_string() const { return fmt::format("{}{},{},{}", kPrefix, meeting, job_token, store_url); }

bool UniqueId::is_one(std::string_view text) noexcept { return text.starts_with(kPrefix.substr(0, kPrefix.find_last_of('-'))); }

Result<UniqueId> UniqueId::parse(std::string_view text) {
  std::array<std::string, 3> parts;
  std::size_t at = kPrefix.size();
  bool whole = text.size() <= kUniqueIdBytes && text.starts_with(kPrefix);
  for (std::size_t i = 0; i < parts.size() && whole; ++i) {
    const std::size_t end = i + 1 < parts.size() ? text.find(',', at) : text.size();
    whole = end != std::string_view::npos && printable(text.substr(at, end - at));
    if (whole) parts[i] = text.substr(at, end - at);
    at = end + 1;
  }
  if (!whole)
    return base::error(StatusCode::invalid_argument, "this is no unique id of this version of Slipring: {} bytes, of which the "
                       "secret part is not shown; pass on exactly what create_unique_id gave", text.size());
  return UniqueId{.meeting = parts[0], .job_token = parts[1], .store_url = parts[2]};
}

Result<UniqueId> UniqueId::create(const std::string& address) {
  Hosts& all = hosts();
  const std::lock_guard lock(all.mutex);
  Host& host = all.by_address[address];
  if (!host.server) {
    auto token = make_job_token();
    if (!token) return std::move(token).status();
    auto server = TcpStoreServer::start({.host = address, .job_token = *token});
    if (!server) return std::move(server).status().with(fmt::format("create_unique_id on host {}", address));
    host = {std::move(*token), std::move(*server)};
  }
  std::array<std::uint8_t, 8> random{};
  if (Status s = fill_random(random); !s) return s;
  return UniqueId{.meeting = "meeting-" + to_hex(random), .job_token = host.token, .store_url = host.server->url()};
}

}  // namespace slipring::engine
