#include "collectives/tuning_table.h"

#include <toml++/toml.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <limits>
#include <optional>

#include "base/status.h"
#include "collectives/selector.h"

namespace slipring::collectives {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxRules = 4096;

int line_of(const toml::node& node) noexcept { return static_cast<int>(node.source().begin.line); }

class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name) {}

  Status read_rule(const toml::node& node, TuningRule& rule) {
    const toml::table* table = node.as_table();
    if (table == nullptr) return wrong(node, "a rule is a table: [[rule]]");
    rule.line = line_of(node);
    bool has_operation = false;
    for (const auto& [key, value] : *table) {
      Status s;
      if (key == "operation") {
        has_operation = true;
        s = read_operation(value, rule.operation);
      } else if (key == "ranks") {
        s = read_range(value, "ranks", rule.ranks_from, rule.ranks_to);
      } else if (key == "bytes") {
        s = read_range(value, "bytes", rule.bytes_from, rule.bytes_to);
      } else if (key == "algorithm") {
        const auto name = value.value<std::string>();
        if (!name) return wrong(value, "algorithm is a name in quotes");
        rule.algorithm = *name;
      } else {
        return wrong(value, fmt::format("there is no \"{}\" in a rule; it has operation, ranks, bytes and algorithm", key.str()));
      }
      if (!s) return s;
    }
    if (!has_operation || rule.algorithm.empty()) return wrong(node, "a rule needs an operation and an algorithm");
    if (!choice_named(rule.operation, rule.algorithm))
      return wrong(node, fmt::format("{} has no algorithm \"{}\"; it has {}", operation_name(rule.operation), rule.algorithm,
                                     choices_text(rule.operation)));
    return {};
  }

  Status wrong(const toml::node& node, std::string_view why) const {
    return base::error(StatusCode::invalid_argument, "tuning file {}, line {}: {}", name_, line_of(node), why);
  }

 private:
  Status read_operation(const toml::node& node, Operation& operation) const {
    const auto name = node.value<std::string>();
    for (int i = 0; name && i < kOperationCount; ++i)
      if (operation_name(static_cast<Operation>(i)) == *name) {
        operation = static_cast<Operation>(i);
        return {};
      }
    return wrong(node, fmt::format("\"{}\" is not a collective operation", name.value_or("?")));
  }

  template <class T>
  Status read_range(const toml::node& node, std::string_view what, T& from, T& to) const {
    const auto read = [](const toml::node* n, T& number) {
      const auto value = n != nullptr && n->is_integer() ? n->value<std::int64_t>() : std::nullopt;
      if (!value || *value < 0 || static_cast<std::uint64_t>(*value) > std::numeric_limits<T>::max()) return false;
      number = static_cast<T>(*value);
      return true;
    };
    const toml::array* pair = node.as_array();
    T first{}, last{};
    const bool understood = pair == nullptr ? read(&node, first) && read(&node, last)
                                            : pair->size() == 2 && read(pair->get(0), first) && read(pair->get(1), last);
    if (!understood || first > last) return wrong(node, fmt::format("{} is a number or a pair [from, to] of them", what));
    from = first;
    to = last;
    return {};
  }

  const std::string& name_;
};

}  // namespace

Result<std::shared_ptr<const TuningTable>> TuningTable::parse(std::string_view text, const std::string& name) {
  auto table = std::make_shared<TuningTable>();
  table->path_ = name;
  table->digest_ = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : text) table->digest_ = (table->digest_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  try {
    const toml::table document = toml::parse(text, name);
    const Reader reader(name);
    for (const auto& [key, value] : document) {
      const toml::array* rules = value.as_array();
      if (key != "rule" || rules == nullptr) return reader.wrong(value, fmt::format("\"{}\" is not understood; a tuning file holds [[rule]] only", key.str()));
      if (rules->size() > kMaxRules) return reader.wrong(value, fmt::format("{} rules, at most {} are taken", rules->size(), kMaxRules));
      for (const toml::node& node : *rules)
        if (Status s = Reader(name).read_rule(node, table->rules_.emplace_back()); !s) return s;
    }
  } catch (const toml::parse_error& failure) {
    return base::error(StatusCode::invalid_argument, "tuning file {}, line {}: {}", name, failure.source().begin.line, failure.description());
  }
  return std::shared_ptr<const TuningTable>(std::move(table));
}

Result<std::shared_ptr<const TuningTable>> TuningTable::load(const std::string& path) {
  if (path.empty()) return std::shared_ptr<const TuningTable>(std::make_shared<TuningTable>());
  std::ifstream file(path, std::ios::binary);
  if (!file) return base::errno_error(errno, fmt::format("opening the tuning file {}", path));
  std::string text(kMaxBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMaxBytes) return base::error(StatusCode::invalid_argument, "tuning file {}: more than {} bytes", path, kMaxBytes);
  return parse(text, path);
}

}  // namespace slipring::collectives
