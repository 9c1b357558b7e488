#include "engine/group/group_hello.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/status.h"

namespace slipring::engine {

using nlohmann::json;

std::string GroupHello::encode() const {
  return json{{"error", error}, {"settings", settings}, {"pid", process.pid}, {"start", process.start_ticks}, {"pid_namespace", pid_namespace},
              {"cpus", cpus}, {"domains", domains}, {"membarrier", membarrier}, {"segment", segment}, {"heap", heap}, {"arena", arena}}
      .dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<GroupHello> GroupHello::decode(std::string_view text) {
  const json j = json::parse(text, nullptr, false);
  GroupHello h;
  try {
    h.error = j.at("error").get<std::string>();
    h.settings = j.at("settings").get<std::string>();
    h.process.pid = j.at("pid").get<pid_t>();
    h.process.start_ticks = j.at("start").get<std::uint64_t>();
    h.pid_namespace = j.at("pid_namespace").get<std::string>();
    h.cpus = j.at("cpus").get<std::vector<int>>();
    h.domains = j.at("domains").get<std::vector<int>>();
    h.membarrier = j.at("membarrier").get<bool>();
    h.segment = j.at("segment").get<std::string>();
    h.heap = j.at("heap").get<std::string>();
    h.arena = j.at("arena").get<std::string>();
  } catch (const json::exception& e) {
    return base::error(StatusCode::corrupt, "greeting of a rank cannot be read ({}); all ranks must run the same version",
                       e.what());
  }
  return h;
}

bool ranks_share_cpus(const std::vector<GroupHello>& hellos) {
  std::set<int> all;
  std::map<int, int> tied;  // CPU -> ranks that may run nowhere else
  for (const GroupHello& h : hellos) {
    all.insert(h.cpus.begin(), h.cpus.end());
    if (h.cpus.size() == 1 && ++tied[h.cpus.front()] > 1) return true;
  }
  return hellos.size() > all.size();
}

}  // namespace slipring::engine
