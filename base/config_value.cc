#include "base/config_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace slipring::base {
namespace {

template <class Number>
std::optional<ConfigValue> parse_number(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, number);
  if (failure != std::errc() || stop != end) return std::nullopt;
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(number)) return std::nullopt;
  }
  return number;
}

/// Bytes of the UTF-8 sequence at the front of `text`, 0 when it is not one. TOML is UTF-8: a string that is
/// not could be dumped but not read back.
std::size_t utf8_sequence_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const unsigned char second = byte(1);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool surrogate = lead == 0xED && second >= 0xA0;
  const bool beyond_unicode = lead == 0xF4 && second >= 0x90;
  return overlong || surrogate || beyond_unicode ? 0 : bytes;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = utf8_sequence_bytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.append({'\\', c});
    } else if (byte < 0x20 || byte == 0x7F) {
      fmt::format_to(std::back_inserter(out), "\\u{:04X}", byte);
    } else {
      out.push_back(c);
    }
  }
  return out + '"';
}

std::string number_literal(double number) {
  std::string out = fmt::format("{}", number);
  // Without a point or an exponent TOML would read an integer.
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

template <class... Overloads>
struct Overloaded : Overloads... {
  using Overloads::operator()...;
};

}  // namespace

std::string_view config_type_name(std::size_t type_index) noexcept {
  constexpr std::string_view kNames[] = {"bool", "integer", "number", "string"};
  static_assert(std::size(kNames) == std::variant_size_v<ConfigValue>);
  return kNames[type_index];
}

std::optional<ConfigValue> parse_config_value(std::size_t type_index, std::string_view text) {
  switch (type_index) {
    case 0:
      if (text == "true" || text == "1") return true;
      if (text == "false" || text == "0") return false;
      return std::nullopt;
    case 1:
      return parse_number<std::int64_t>(text);
    case 2:
      return parse_number<double>(text);
    default:
      return is_utf8(text) ? std::optional<ConfigValue>(std::string(text)) : std::nullopt;
  }
}

std::string toml_literal(const ConfigValue& value) {
  return std::visit(
      Overloaded{[](bool b) { return std::string(b ? "true" : "false"); },
                 [](std::int64_t n) { return fmt::format("{}", n); },
                 [](double d) { return number_literal(d); }, [](const std::string& s) { return quoted(s); }},
      value);
}

Status Allowed::accept(const ConfigValue& value) const {
  const auto in_range = [this](auto number) {
    using Number = decltype(number);
    const bool inside = number >= static_cast<Number>(lowest) && number <= static_cast<Number>(highest);
    return inside || (automatic && number == Number{-1});
  };
  const auto range_status = [&](auto number) {
    return in_range(number) ? Status() : Status(StatusCode::invalid_argument, "");
  };
  return std::visit(Overloaded{[](bool) { return Status(); }, [&](std::int64_t n) { return range_status(n); },
                               [&](double d) { return range_status(d); },
                               [&](const std::string& s) {
                                 if (check != nullptr) return check(s);
                                 const bool known =
                                     words.empty() || std::find(words.begin(), words.end(), s) != words.end();
                                 return known ? Status() : Status(StatusCode::invalid_argument, "");
                               }},
                    value);
}

std::string Allowed::describe(std::size_t type_index) const {
  using Limits = std::numeric_limits<std::int64_t>;
  if (type_index == 0) return "true or false";
  if (!form.empty()) return std::string(form);
  if (!words.empty()) return fmt::format("{}", fmt::join(words, ", "));
  if (type_index == 3) return "any text in UTF-8";
  std::string range = type_index == 1 ? "an integer" : "a number";
  if (lowest != Limits::min() && highest != Limits::max()) {
    range += fmt::format(" from {} to {}", lowest, highest);
  } else if (lowest != Limits::min()) {
    range += fmt::format(" of at least {}", lowest);
  } else if (highest != Limits::max()) {
    range += fmt::format(" of at most {}", highest);
  }
  return automatic ? "-1 (automatic) or " + range : range;
}

}  // namespace slipring::base
