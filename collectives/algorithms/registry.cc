#include <algorithm>
#include <numeric>

#include "base/status.h"
#include "collectives/algorithms/algorithm.h"

namespace slipring::collectives {

#define SLIPRING_ALGORITHM(operation, name, description) Plan operation##_##name(const PlanRequest& request);
#include "collectives/algorithms/algorithms.def"
#undef SLIPRING_ALGORITHM

namespace {

constexpr Algorithm kAlgorithms[] = {
#define SLIPRING_ALGORITHM(operation, name, description) \
  {Operation::operation, #name, description, &operation##_##name},
#include "collectives/algorithms/algorithms.def"
#undef SLIPRING_ALGORITHM
};

}  // namespace

std::span<const Algorithm> algorithms() noexcept {
  return kAlgorithms;
}

const Algorithm* find_algorithm(Operation operation, std::string_view name) noexcept {
  for (const Algorithm& algorithm : kAlgorithms) {
    if (algorithm.operation == operation && algorithm.name == name) return &algorithm;
  }
  return nullptr;
}

Status valid_request(const PlanRequest& request) {
  if (request.ranks < 1) {
    return base::error(StatusCode::invalid_argument, "plan request: ranks {}, at least 1 is needed",
                       request.ranks);
  }
  if (request.root < 0 || request.root >= request.ranks) {
    return base::error(StatusCode::invalid_argument, "plan request: root {} is not one of {} ranks",
                       request.root, request.ranks);
  }
  if (request.lanes < 1) {
    return base::error(StatusCode::invalid_argument, "plan request: lanes {}, at least 1 is needed",
                       request.lanes);
  }
  if (request.only_rank >= request.ranks) {
    return base::error(StatusCode::invalid_argument, "plan request: only_rank {} is not one of {} ranks",
                       request.only_rank, request.ranks);
  }
  if (!request.node_of_rank.empty() &&
      request.node_of_rank.size() != static_cast<std::size_t>(request.ranks)) {
    return base::error(StatusCode::invalid_argument, "plan request: nodes given for {} of {} ranks",
                       request.node_of_rank.size(), request.ranks);
  }
  return Status();
}

RingOrder::RingOrder(const PlanRequest& request, int lane)
    : rank_at_(static_cast<std::size_t>(request.ranks)), place_of_(static_cast<std::size_t>(request.ranks)) {
  std::iota(rank_at_.begin(), rank_at_.end(), 0);
  if (!request.node_of_rank.empty()) {
    std::stable_sort(rank_at_.begin(), rank_at_.end(), [&](int a, int b) {
      return request.node_of_rank[static_cast<std::size_t>(a)] <
             request.node_of_rank[static_cast<std::size_t>(b)];
    });
  }
  if (lane % 2 == 1) std::reverse(rank_at_.begin(), rank_at_.end());
  for (std::size_t place = 0; place < rank_at_.size(); ++place) {
    place_of_[static_cast<std::size_t>(rank_at_[place])] = static_cast<int>(place);
  }
}

}  // namespace slipring::collectives
