// The operations, one per file of this folder; tools/perf/operation.cc lists them.
#pragma once

#include "tools/perf/operation.h"

namespace slipring::tools::perf {

extern const OperationInfo kAllReduce;
extern const OperationInfo kBroadcast;
extern const OperationInfo kBarrier;
extern const OperationInfo kSendRecv;
extern const OperationInfo kStream;

}  // namespace slipring::tools::perf
