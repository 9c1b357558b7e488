// The operations, those alike in one file of this folder; tools/perf/operation.cc lists them.
#pragma once

#include "tools/perf/operation.h"

namespace slipring::tools::perf {

extern const OperationInfo kAllReduce;
extern const OperationInfo kReduce;
extern const OperationInfo kBroadcast;
extern const OperationInfo kAllGather;
extern const OperationInfo kReduceScatter;
extern const OperationInfo kGather;
extern const OperationInfo kScatter;
extern const OperationInfo kAllToAll;
extern const OperationInfo kBarrier;
extern const OperationInfo kSendRecv;
extern const OperationInfo kStream;

}  // namespace slipring::tools::perf
