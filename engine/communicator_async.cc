// The asynchronous calls: each is its blocking call, put on a lane. Arguments are kept by value.
#include <vector>

#include "engine/communicator_calls.h"

namespace slipring {

using engine::BlockShape;
using engine::CommunicatorImpl;
using engine::host;
using engine::LaneKey;
using engine::WorkState;
using engine::use;
using engine::value_or_raise;

namespace {

using Counts = std::vector<std::size_t>;
Counts kept(std::span<const std::size_t> counts) { return {counts.begin(), counts.end()}; }

/// body(c, operation) on a lane. What the call itself can refuse, it does.
template <class Body>
engine::WorkPtr start(const std::shared_ptr<CommunicatorImpl>& impl, LaneKey lane, Body body) {
  CommunicatorImpl& c = use(impl);
  const engine::Entered entered(c);
  auto operation = c.lanes().start(lane, [&c, body = std::move(body)](WorkState& o) { return body(c, o); }, impl);
  // Without a thread of its own the operation has begun already, unless others are before it.
  if (operation->finished.load(std::memory_order_acquire)) engine::raise_unless_ok(operation->result);  // WORK_FINISHED
  return operation;
}

}  // namespace

Work Communicator::iall_reduce(ConstBuffer in, Buffer out, std::size_t count, DType dtype, ReduceOp op) {
  return Work(start(impl_, {}, [=, from = host(in), to = host(out)](CommunicatorImpl& c, WorkState&) {
    return c.all_reduce(from, to, count, dtype, op);
  }));
}
Work Communicator::ireduce(ConstBuffer in, Buffer out, std::size_t count, DType dtype, ReduceOp op, int root) {
  return Work(start(impl_, {}, [=, from = host(in), to = host(out)](CommunicatorImpl& c, WorkState&) {
    return c.reduce(from, to, count, dtype, op, root);
  }));
}
Work Communicator::ibroadcast(Buffer buffer, std::size_t count, DType dtype, int root) {
  return Work(start(impl_, {}, [=, data = host(buffer)](CommunicatorImpl& c, WorkState&) { return c.broadcast(data, count, dtype, root); }));
}
Work Communicator::ibarrier() {
  return Work(start(impl_, {}, [](CommunicatorImpl& c, WorkState&) { return c.barrier(); }));
}

Work Communicator::iall_gather(ConstBuffer in, Buffer out, std::size_t count, DType dtype) {
  return Work(start(impl_, {}, [=, from = host(in), to = host(out)](CommunicatorImpl& c, WorkState&) {
    return c.all_gather(from, to, {1, count}, dtype);
  }));
}
Work Communicator::iall_gather(ConstBuffer in, Buffer out, Shape shape, int dim, DType dtype) {
  const BlockShape block = value_or_raise(BlockShape::concatenated(shape, dim));
  return Work(start(impl_, {}, [=, from = host(in), to = host(out)](CommunicatorImpl& c, WorkState&) {
    return c.all_gather(from, to, block, dtype);
  }));
}
Work Communicator::iall_gatherv(ConstBuffer in, Buffer out, std::span<const std::size_t> counts, DType dtype) {
  return Work(start(impl_, {}, [=, from = host(in), to = host(out), n = kept(counts)](CommunicatorImpl& c, WorkState&) {
    return c.all_gatherv(from, to, n, dtype);
  }));
}
Work Communicator::ireduce_scatter(ConstBuffer in, Buffer out, std::size_t count, DType dtype, ReduceOp op) {
  return Work(start(impl_, {}, [=, from = host(in), to = host(out)](CommunicatorImpl& c, WorkState&) {
    return c.reduce_scatter(from, to, {1, count}, dtype, op);
  }));
}
Work Communicator::ireduce_scatter(ConstBuffer in, Buffer out, Shape shape, int dim, DType dtype, ReduceOp op) {
  const BlockShape block = value_or_raise(BlockShape::cut(shape, dim, use(impl_).size()));
  return Work(start(impl_, {}, [=, from = host(in), to = host(out)](CommunicatorImpl& c, WorkState&) {
    return c.reduce_scatter(from, to, block, dtype, op);
  }));
}
Work Communicator::ireduce_scatterv(ConstBuffer in, Buffer out, std::span<const std::size_t> counts, DType dtype, ReduceOp op) {
  return Work(start(impl_, {}, [=, from = host(in), to = host(out), n = kept(counts)](CommunicatorImpl& c, WorkState&) {
    return c.reduce_scatterv(from, to, n, dtype, op);
  }));
}
Work Communicator::igather(ConstBuffer in, Buffer out, std::size_t count, DType dtype, int root, GatherMode mode) {
  return Work(start(impl_, {}, [=, from = host(in), to = host(out)](CommunicatorImpl& c, WorkState&) {
    return c.gather(from, to, {1, count}, dtype, root, mode);
  }));
}
Work Communicator::igather(ConstBuffer in, Buffer out, Shape shape, int dim, DType dtype, int root, GatherMode mode) {
  const BlockShape block = value_or_raise(BlockShape::concatenated(shape, dim));
  return Work(start(impl_, {}, [=, from = host(in), to = host(out)](CommunicatorImpl& c, WorkState&) {
    return c.gather(from, to, block, dtype, root, mode);
  }));
}
Work Communicator::igatherv(ConstBuffer in, std::size_t count, Buffer out, std::span<const std::size_t> counts, DType dtype, int root) {
  return Work(start(impl_, {}, [=, from = host(in), to = host(out), n = kept(counts)](CommunicatorImpl& c, WorkState&) {
    return c.gatherv(from, count, to, n, dtype, root);
  }));
}
Work Communicator::iscatter(ConstBuffer in, Buffer out, std::size_t count, DType dtype, int root) {
  return Work(start(impl_, {}, [=, from = host(in), to = host(out)](CommunicatorImpl& c, WorkState&) {
    return c.scatter(from, to, count, dtype, root);
  }));
}
Work Communicator::iscatterv(ConstBuffer in, std::span<const std::size_t> counts, Buffer out, std::size_t count, DType dtype, int root) {
  return Work(start(impl_, {}, [=, from = host(in), to = host(out), n = kept(counts)](CommunicatorImpl& c, WorkState&) {
    return c.scatterv(from, n, to, count, dtype, root);
  }));
}
Work Communicator::iall_to_all(ConstBuffer in, Buffer out, std::size_t count, DType dtype) {
  return Work(start(impl_, {}, [=, from = host(in), to = host(out)](CommunicatorImpl& c, WorkState&) {
    return c.all_to_all(from, to, count, dtype);
  }));
}
Work Communicator::iall_to_allv(ConstBuffer in, std::span<const std::size_t> in_counts, Buffer out,
                                std::span<const std::size_t> out_counts, DType dtype) {
  return Work(start(impl_, {}, [=, from = host(in), to = host(out), given = kept(in_counts), got = kept(out_counts)](CommunicatorImpl& c,
                                                                                                               WorkState&) {
    return c.all_to_allv(from, given, to, got, dtype);
  }));
}

Work Communicator::isend(const void* buffer, std::size_t bytes, int peer) {
  return Work(start(impl_, {.peer = peer}, [=](CommunicatorImpl& c, WorkState& o) { return c.send_in_lane(o, buffer, bytes, peer); }));
}
Work Communicator::irecv(void* buffer, std::size_t bytes, int peer) {
  return Work(start(impl_, {.peer = peer, .receives = true},
                    [=](CommunicatorImpl& c, WorkState& o) { return c.recv_in_lane(o, buffer, bytes, peer); }));
}

}  // namespace slipring
