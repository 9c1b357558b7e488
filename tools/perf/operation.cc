#include "tools/perf/operation.h"

#include <algorithm>

#include "tools/perf/operations/operations.h"

namespace slipring::tools::perf {

std::span<const OperationInfo* const> operations() {
  static constexpr const OperationInfo* kAll[] = {&kAllReduce, &kReduce, &kBroadcast, &kAllGather, &kReduceScatter, &kGather,
                                                   &kScatter,   &kAllToAll, &kBarrier, &kSendRecv, &kStream};
  return kAll;
}

const OperationInfo* find_operation(std::string_view name) {
  const auto all = operations();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const OperationInfo* info) { return info->name == name; });
  return found == all.end() ? nullptr : *found;
}

}  // namespace slipring::tools::perf
