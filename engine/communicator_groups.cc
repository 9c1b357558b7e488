// Communicators of some of the ranks: control path.
#include <algorithm>
#include <cstring>

#include "base/status.h"
#include "engine/communicator_impl.h"
#include "engine/group/subgroup.h"

namespace slipring::engine {
namespace {

using collectives::Operation;

// What one rank tells the others about its part of a new group.
struct GroupOffer {
  std::uint64_t members = 0;  ///< digest of the list
  std::uint64_t offset = 0;
  std::uint64_t code = 0;     ///< StatusCode; 0 is ok
};

std::uint64_t digest_of(std::span<const int> ranks) noexcept {
  std::uint64_t digest = 0xcbf29ce484222325;  // FNV-1a
  for (const int rank : ranks) digest = (digest ^ static_cast<std::uint64_t>(rank)) * 0x100000001b3;
  return digest;
}

Status member_failed(int rank, std::uint64_t code) {
  return base::error(StatusCode::unavailable, "rank {} could not take part in the new group: {}; its own error says why", rank,
                     code < static_cast<std::uint64_t>(StatusCode::would_block) ? status_code_name(static_cast<StatusCode>(code)) : "?");
}

}  // namespace

Result<std::shared_ptr<CommunicatorImpl>> CommunicatorImpl::found(Subgroup& subgroup, std::span<const std::uint64_t> offers) {
  auto group = subgroup.form(offers);
  if (!group) return fail(std::move(group).status());
  counters_.groups.add(1);
  return std::make_shared<CommunicatorImpl>(*group, config_, base::FaultPoint());
}

Result<std::shared_ptr<CommunicatorImpl>> CommunicatorImpl::split(int color, int key) {
  if (Status s = check_usable(); !s) return std::move(s).with("split");
  const std::size_t own[2] = {static_cast<std::size_t>(color), static_cast<std::size_t>(key)};
  if (Status s = gather_counts(own, Operation::split, DType::i64, 0); !s) return s;
  std::vector<int> members;
  for (int r = 0; r < size_; ++r)
    if (color >= 0 && static_cast<int>(counts_[2 * static_cast<std::size_t>(r)]) == color) members.push_back(r);
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return static_cast<int>(counts_[2 * static_cast<std::size_t>(a) + 1]) < static_cast<int>(counts_[2 * static_cast<std::size_t>(b) + 1]);
  });

  // Everybody takes part in the second exchange, whether in a group or not, and whether able or not.
  auto mine = members.empty() ? Result<Subgroup>(Status(StatusCode::closed, "")) : Subgroup::reserve(group_, members, config_);
  const std::size_t offer[2] = {mine ? mine->offer() : 0, mine ? 0 : static_cast<std::size_t>(mine.status().code())};
  if (Status s = gather_counts(offer, Operation::split, DType::i64, 1); !s) return s;
  if (members.empty()) return std::shared_ptr<CommunicatorImpl>();
  if (!mine) return std::move(mine).status().with("split");
  std::vector<std::uint64_t> offers;
  for (const int r : members) {
    const std::size_t at = 2 * static_cast<std::size_t>(r);
    if (counts_[at + 1] != 0) return member_failed(r, counts_[at + 1]).with("split");
    offers.push_back(counts_[at]);
  }
  return found(*mine, offers);
}

Status CommunicatorImpl::check_members(std::span<const int> ranks) const {
  if (Status s = check_usable(); !s) return s;
  if (ranks.empty()) return base::error(StatusCode::invalid_argument, "the list of ranks is empty");
  std::vector<bool> listed(static_cast<std::size_t>(size_));
  for (const int r : ranks) {
    if (r < 0 || r >= size_) return base::error(StatusCode::invalid_argument, "rank {} is not one of {} ranks", r, size_);
    if (listed[static_cast<std::size_t>(r)]) return base::error(StatusCode::invalid_argument, "rank {} is listed twice", r);
    listed[static_cast<std::size_t>(r)] = true;
  }
  return {};
}

Result<std::shared_ptr<CommunicatorImpl>> CommunicatorImpl::create_group(std::span<const int> ranks) {
  if (Status s = check_members(ranks); !s) return std::move(s).with("create_group");
  if (std::find(ranks.begin(), ranks.end(), rank()) == ranks.end()) return std::shared_ptr<CommunicatorImpl>();
  auto mine = Subgroup::reserve(group_, {ranks.begin(), ranks.end()}, config_);
  GroupOffer own{.members = digest_of(ranks)};
  if (mine)
    own.offset = mine->offer();
  else
    own.code = static_cast<std::uint64_t>(mine.status().code());

  // Every member tells every other one: no rank leads, so that a wait names the rank that is missing.
  const std::string_view text(reinterpret_cast<const char*>(&own), sizeof own);
  for (const int peer : ranks)
    if (peer != rank())
      if (Status s = channels_.tell(peer, ControlMessage::group, text); !s) return fail(std::move(s).with("create_group"));
  std::vector<std::uint64_t> offers;
  Status unable;
  for (const int peer : ranks) {
    GroupOffer theirs = own;
    if (peer != rank()) {
      auto heard = channels_.hear(peer, ControlMessage::group);
      if (!heard) return fail(std::move(heard).status().with("create_group"));
      if (heard->size() == sizeof theirs) std::memcpy(&theirs, heard->data(), sizeof theirs);
      if (heard->size() != sizeof theirs || theirs.members != own.members)
        return fail(base::error(StatusCode::mismatch, "create_group: rank {} forms the group of ranks {}, but rank {} another one; "
                                "ranks must form the groups that they share in the same order", rank(), fmt::join(ranks, ", "), peer));
    }
    if (theirs.code != 0 && unable.is_ok()) unable = member_failed(peer, theirs.code);
    offers.push_back(theirs.offset);
  }
  if (!mine) return std::move(mine).status().with("create_group");
  if (!unable.is_ok()) return std::move(unable).with("create_group");
  return found(*mine, offers);
}

}  // namespace slipring::engine
