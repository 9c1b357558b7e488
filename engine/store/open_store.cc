// The url grammar of stores, in one place: what open_store accepts and how it says no.
#include <charconv>

#include "base/status.h"
#include "engine/store/file_store.h"
#include "engine/store/store.h"
#include "engine/store/tcp_store.h"

namespace slipring::engine {
namespace {

constexpr std::string_view kTcpScheme = "tcp://";
constexpr std::string_view kFileScheme = "file://";

Status bad_url(std::string_view url, std::string_view why) {
  return base::error(
      StatusCode::invalid_argument,
      "store url \"{}\": {}; write e.g. tcp://127.0.0.1:29500, tcp://[::1]:29500 or file:///tmp/my-job", url,
      why);
}

struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};

Result<HostPort> parse_host_port(std::string_view url, std::string_view text) {
  HostPort parsed;
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find("]:");
    if (end == std::string_view::npos) return bad_url(url, "no ]:PORT after the IPv6 address");
    parsed.host = text.substr(1, end - 1);
    port = text.substr(end + 2);
  } else {
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) return bad_url(url, "no :PORT");
    if (text.find(':', colon + 1) != std::string_view::npos) {
      return bad_url(url, "more than one colon; an IPv6 address stands in brackets");
    }
    parsed.host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  if (parsed.host.empty()) return bad_url(url, "no host");
  const auto [stop, problem] = std::from_chars(port.data(), port.data() + port.size(), parsed.port);
  if (port.empty() || problem != std::errc() || stop != port.data() + port.size() || parsed.port == 0) {
    return bad_url(url, "the port is no number from 1 to 65535");
  }
  return parsed;
}

}  // namespace

Result<std::shared_ptr<Store>> open_store(std::string_view url, std::string_view job_token,
                                          const base::Deadline& deadline) {
  if (url.starts_with(kTcpScheme)) {
    Result<HostPort> place = parse_host_port(url, url.substr(kTcpScheme.size()));
    if (!place) return std::move(place).status();
    return connect_tcp_store(place->host, place->port, std::string(job_token), deadline);
  }
  if (url.starts_with(kFileScheme)) {
    const std::string_view directory = url.substr(kFileScheme.size());
    if (!directory.starts_with('/')) return bad_url(url, "the directory is not an absolute path");
    return open_file_store(std::string(directory), job_token, deadline);
  }
  return bad_url(url, "the scheme is neither tcp:// nor file://");
}

}  // namespace slipring::engine
