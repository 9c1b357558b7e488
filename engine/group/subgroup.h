// Subgroup: how some ranks of a group become a group of their own.
//
//   auto made = Subgroup::reserve(parent, {4, 0, 2});   // ranks of the parent in the order of the new group
//   ... tell the other members made->offer(), get theirs ...
//   auto group = made->form(offers);                    // by new rank
//
// Control path; no store, no descriptor, no mapping: the memory lies in the arenas that all ranks of the job have mapped.
// What is reserved and never formed goes back. Members must agree beforehand on who they are and in which order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/config.h"
#include "engine/group/shared_group.h"

namespace slipring::engine {

class Subgroup {
 public:
  static Result<Subgroup> reserve(std::shared_ptr<SharedGroup> parent, std::vector<int> ranks, const base::ConfigValues& config);
  Subgroup(Subgroup&& other) noexcept;
  Subgroup& operator=(Subgroup&&) = delete;
  ~Subgroup();

  /// Where the own memory lies, for the other members.
  std::uint64_t offer() const noexcept { return offset_; }
  /// corrupt if an offer is not the memory of that member.
  Result<std::shared_ptr<SharedGroup>> form(std::span<const std::uint64_t> offers);

 private:
  Subgroup(std::shared_ptr<SharedGroup> parent, std::vector<int> ranks, const GroupLayout& layout, std::size_t offset) noexcept;

  std::shared_ptr<SharedGroup> parent_;  // null once formed or moved from
  std::vector<int> ranks_;
  int rank_;
  GroupLayout layout_;
  std::size_t offset_;
};

}  // namespace slipring::engine
