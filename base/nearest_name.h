// Which known name a mistyped one probably meant. Pure function, any thread.
#pragma once

#include <span>
#include <string_view>

namespace slipring::base {

/// The candidate with the fewest edits (insert, delete, replace, swap neighbours) from `name`, the first of
/// them on a tie; empty when even that one shares less than about two thirds of its characters with `name`.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates);

}  // namespace slipring::base
