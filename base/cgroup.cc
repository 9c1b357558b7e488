#include "base/cgroup.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <vector>

namespace slipring::base {

namespace {

std::optional<std::string> read_text(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc() || end == text.data()) return std::nullopt;
  return number;
}

std::optional<std::uint64_t> read_number(const std::string& path) {
  const auto text = read_text(path);
  return text ? parse_number(*text) : std::nullopt;
}

// Sum of the page cache that the kernel drops before it refuses memory ("inactive_file N", "active_file N").
std::uint64_t droppable_bytes(const std::string& stat_path, std::string_view prefix) {
  std::istringstream lines(read_text(stat_path).value_or(""));
  std::string key;
  std::uint64_t value = 0;
  std::uint64_t sum = 0;
  while (lines >> key >> value) {
    if (key == std::string(prefix) + "inactive_file" || key == std::string(prefix) + "active_file")
      sum += value;
  }
  return sum;
}

// The process's group in the unified hierarchy (controller "") or in a v1 one.
std::optional<std::string> group_of(const CgroupPaths& paths, std::string_view controller) {
  std::istringstream lines(read_text(paths.membership).value_or(""));
  std::string line;
  while (std::getline(lines, line)) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::istringstream controllers(line.substr(first + 1, second - first - 1));
    std::string name;
    bool match = controller.empty() && second == first + 1;
    while (std::getline(controllers, name, ',')) match = match || name == controller;
    if (match) return line.substr(second + 1);
  }
  return std::nullopt;
}

// Folders from the group up to the root. A container often sees its own group as the root, under a path that
// does not exist there; going up reaches it all the same.
std::vector<std::string> way_up(const std::string& root, std::string group) {
  std::vector<std::string> folders;
  while (!group.empty() && group != "/") {
    folders.push_back(root + group);
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
  folders.push_back(root);
  return folders;
}

template <class T>
void keep_smaller(std::optional<T>& smallest, std::optional<T> candidate) {
  if (candidate && (!smallest || *candidate < *smallest)) smallest = candidate;
}

struct MemoryFiles {
  const char* limit;
  const char* used;
  const char* stat_prefix;
};

std::optional<std::uint64_t> memory_left_in(const std::string& folder, const MemoryFiles& files) {
  const auto limit = read_number(folder + files.limit);
  const auto used = read_number(folder + files.used);
  if (!limit || !used) return std::nullopt;
  const std::uint64_t held =
      *used - std::min(*used, droppable_bytes(folder + "/memory.stat", files.stat_prefix));
  return *limit - std::min(*limit, held);
}

}  // namespace

std::optional<std::uint64_t> cgroup_memory_left_bytes(const CgroupPaths& paths) {
  std::optional<std::uint64_t> left;
  if (const auto group = group_of(paths, "")) {
    for (const auto& folder : way_up(paths.root, *group)) {
      keep_smaller(left, memory_left_in(folder, {"/memory.max", "/memory.current", ""}));
    }
  }
  if (const auto group = group_of(paths, "memory")) {
    for (const auto& folder : way_up(paths.root + "/memory", *group)) {
      keep_smaller(left,
                   memory_left_in(folder, {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_"}));
    }
  }
  return left;
}

std::optional<double> cgroup_cpu_quota(const CgroupPaths& paths) {
  std::optional<double> quota;
  if (const auto group = group_of(paths, "")) {
    for (const auto& folder : way_up(paths.root, *group)) {
      if (const auto text = read_text(folder + "/cpu.max")) keep_smaller(quota, parse_cpu_max(*text));
    }
  }
  return quota;
}

std::optional<double> parse_cpu_max(std::string_view text) {
  const auto blank = text.find(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  const auto quota = parse_number(text.substr(0, blank));
  const auto period = parse_number(text.substr(blank + 1));
  if (!quota || !period || *period == 0) return std::nullopt;
  return static_cast<double>(*quota) / static_cast<double>(*period);
}

}  // namespace slipring::base
