// The asynchronous calls: the arguments are checked at once and kept by value, the blocking call is put on a lane.
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

/// body(c, operation) on a lane, unless the arguments, checked already, are wrong.
template <class Body>
engine::WorkPtr start(const std::shared_ptr<CommunicatorImpl>& impl, LaneKey lane, Status arguments, Body body) {
  CommunicatorImpl& c = use(impl);
  const engine::Entered entered(c);
  engine::raise_unless_ok(c.check_process());
  engine::raise_unless_ok(c.check_open());
  engine::raise_unless_ok(std::move(arguments));
  auto operation = c.lanes().start(lane, [&c, body = std::move(body)](WorkState& o) { return body(c, o); }, impl);
  // What has failed already, the communicator's state for one, need not wait for wait.
  if (operation->finished.load(std::memory_order_acquire)) engine::raise_unless_ok(operation->result);  // WORK_FINISHED
  return operation;
}

}  // namespace

Work Communicator::iall_reduce(ConstBuffer in, Buffer out, std::size_t count, DType dtype, ReduceOp op) {
  return Work(start(impl_, {}, use(impl_).check_all_reduce(host(in), host(out), count, dtype, op),
                    [=, from = host(in), to = host(out)](CommunicatorImpl& c, WorkState&) {
                      return c.all_reduce(from, to, count, dtype, op);
                    }));
}
Work Communicator::ireduce(ConstBuffer in, Buffer out, std::size_t count, DType dtype, ReduceOp op, int root) {
  return Work(start(impl_, {}, use(impl_).check_reduce(host(in), host(out), count, dtype, op, root),
                    [=, from = host(in), to = host(out)](CommunicatorImpl& c, WorkState&) {
                      return c.reduce(from, to, count, dtype, op, root);
                    }));
}
Work Communicator::ibroadcast(Buffer buffer, std::size_t count, DType dtype, int root) {
  return Work(start(impl_, {}, use(impl_).check_broadcast(host(buffer), count, dtype, root),
                    [=, data = host(buffer)](CommunicatorImpl& c, WorkState&) { return c.broadcast(data, count, dtype, root); }));
}
Work Communicator::ibarrier() {
  return Work(start(impl_, {}, Status(), [](CommunicatorImpl& c, WorkState&) { return c.barrier(); }));
}

Work Communicator::iall_gather(ConstBuffer in, Buffer out, std::size_t count, DType dtype) {
  return Work(start(impl_, {}, use(impl_).check_all_gather(host(in), host(out), {1, count}, dtype),
                    [=, from = host(in), to = host(out)](CommunicatorImpl& c, WorkState&) {
                      return c.all_gather(from, to, {1, count}, dtype);
                    }));
}
Work Communicator::iall_gather(ConstBuffer in, Buffer out, Shape shape, int dim, DType dtype) {
  const BlockShape block = value_or_raise(BlockShape::concatenated(shape, dim));
  return Work(start(impl_, {}, use(impl_).check_all_gather(host(in), host(out), block, dtype),
                    [=, from = host(in), to = host(out)](CommunicatorImpl& c, WorkState&) {
                      return c.all_gather(from, to, block, dtype);
                    }));
}
Work Communicator::iall_gatherv(ConstBuffer in, Buffer out, std::span<const std::size_t> counts, DType dtype) {
  return Work(start(impl_, {}, use(impl_).check_all_gatherv(host(in), host(out), counts, dtype),
                    [=, from = host(in), to = host(out), n = kept(counts)](CommunicatorImpl& c, WorkState&) {
                      return c.all_gatherv(from, to, n, dtype);
                    }));
}
Work Communicator::ireduce_scatter(ConstBuffer in, Buffer out, std::size_t count, DType dtype, ReduceOp op) {
  return Work(start(impl_, {}, use(impl_).check_reduce_scatter(host(in), host(out), {1, count}, dtype, op),
                    [=, from = host(in), to = host(out)](CommunicatorImpl& c, WorkState&) {
                      return c.reduce_scatter(from, to, {1, count}, dtype, op);
                    }));
}
Work Communicator::ireduce_scatter(ConstBuffer in, Buffer out, Shape shape, int dim, DType dtype, ReduceOp op) {
  const BlockShape block = value_or_raise(BlockShape::cut(shape, dim, use(impl_).size()));
  return Work(start(impl_, {}, use(impl_).check_reduce_scatter(host(in), host(out), block, dtype, op),
                    [=, from = host(in), to = host(out)](CommunicatorImpl& c, WorkState&) {
                      return c.reduce_scatter(from, to, block, dtype, op);
                    }));
}
Work Communicator::ireduce_scatterv(ConstBuffer in, Buffer out, std::span<const std::size_t> counts, DType dtype, ReduceOp op) {
  return Work(start(impl_, {}, use(impl_).check_reduce_scatterv(host(in), host(out), counts, dtype, op),
                    [=, from = host(in), to = host(out), n = kept(counts)](CommunicatorImpl& c, WorkState&) {
                      return c.reduce_scatterv(from, to, n, dtype, op);
                    }));
}
Work Communicator::igather(ConstBuffer in, Buffer out, std::size_t count, DType dtype, int root, GatherMode mode) {
  return Work(start(impl_, {}, use(impl_).check_gather(host(in), host(out), {1, count}, dtype, root, mode),
                    [=, from = host(in), to = host(out)](CommunicatorImpl& c, WorkState&) {
                      return c.gather(from, to, {1, count}, dtype, root, mode);
                    }));
}
Work Communicator::igather(ConstBuffer in, Buffer out, Shape shape, int dim, DType dtype, int root, GatherMode mode) {
  const BlockShape block = value_or_raise(BlockShape::concatenated(shape, dim));
  return Work(start(impl_, {}, use(impl_).check_gather(host(in), host(out), block, dtype, root, mode),
                    [=, from = host(in), to = host(out)](CommunicatorImpl& c, WorkState&) {
                      return c.gather(from, to, block, dtype, root, mode);
                    }));
}
Work Communicator::igatherv(ConstBuffer in, std::size_t count, Buffer out, std::span<const std::size_t> counts, DType dtype, int root) {
  return Work(start(impl_, {}, use(impl_).check_gatherv(host(in), count, host(out), counts, dtype, root),
                    [=, from = host(in), to = host(out), n = kept(counts)](CommunicatorImpl& c, WorkState&) {
                      return c.gatherv(from, count, to, n, dtype, root);
                    }));
}
Work Communicator::iscatter(ConstBuffer in, Buffer out, std::size_t count, DType dtype, int root) {
  return Work(start(impl_, {}, use(impl_).check_scatter(host(in), host(out), count, dtype, root),
                    [=, from = host(in), to = host(out)](CommunicatorImpl& c, WorkState&) {
                      return c.scatter(from, to, count, dtype, root);
                    }));
}
Work Communicator::iscatterv(ConstBuffer in, std::span<const std::size_t> counts, Buffer out, std::size_t count, DType dtype, int root) {
  return Work(start(impl_, {}, use(impl_).check_scatterv(host(in), counts, host(out), count, dtype, root),
                    [=, from = host(in), to = host(out), n = kept(counts)](CommunicatorImpl& c, WorkState&) {
                      return c.scatterv(from, n, to, count, dtype, root);
                    }));
}
Work Communicator::iall_to_all(ConstBuffer in, Buffer out, std::size_t count, DType dtype) {
  return Work(start(impl_, {}, use(impl_).check_all_to_all(host(in), host(out), count, dtype),
                    [=, from = host(in), to = host(out)](CommunicatorImpl& c, WorkState&) {
                      return c.all_to_all(from, to, count, dtype);
                    }));
}
Work Communicator::iall_to_allv(ConstBuffer in, std::span<const std::size_t> in_counts, Buffer out,
                                std::span<const std::size_t> out_counts, DType dtype) {
  return Work(start(impl_, {}, use(impl_).check_all_to_allv(host(in), in_counts, host(out), out_counts, dtype),
                    [=, from = host(in), to = host(out), given = kept(in_counts), got = kept(out_counts)](CommunicatorImpl& c,
                                                                                                               WorkState&) {
                      return c.all_to_allv(from, given, to, got, dtype);
                    }));
}

Work Communicator::isend(const void* buffer, std::size_t bytes, int peer) {
  return Work(start(impl_, {.peer = peer}, use(impl_).check_message(buffer, bytes, peer, "send"),
                    [=](CommunicatorImpl& c, WorkState& o) { return c.send_in_lane(o, buffer, bytes, peer); }));
}
Work Communicator::irecv(void* buffer, std::size_t bytes, int peer) {
  return Work(start(impl_, {.peer = peer, .receives = true}, use(impl_).check_message(buffer, bytes, peer, "recv"),
                    [=](CommunicatorImpl& c, WorkState& o) { return c.recv_in_lane(o, buffer, bytes, peer); }));
}

}  // namespace slipring
