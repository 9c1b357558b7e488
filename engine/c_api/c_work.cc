// The asynchronous calls. Handles own a Work; what the call itself refuses leaves no handle.
#include <chrono>

#include "engine/c_api/c_api.h"

using namespace slipring;
using namespace slipring::engine;

struct slipring_work {
  Work work;
};

namespace {

template <class Start>
slipring_status_t started(slipring_work_t** work, Start&& start) noexcept {
  return guarded([&] {
    deref(work, "work");
    *work = new slipring_work{start()};
  });
}

}  // namespace

extern "C" {

slipring_status_t slipring_work_test(slipring_work_t* work, int32_t* done) {
  return guarded([&] { deref(done, "done") = deref(work, "work").work.test(); });
}
slipring_status_t slipring_work_wait(slipring_work_t* work) {
  return guarded([&] { deref(work, "work").work.wait(); });
}
slipring_status_t slipring_work_wait_for(slipring_work_t* work, int64_t nanoseconds, int32_t* done) {
  return guarded([&] {
    deref(done, "done") = deref(work, "work").work.wait_for(std::chrono::nanoseconds(nanoseconds));
  });
}
slipring_status_t slipring_work_cancel(slipring_work_t* work) {
  return guarded([&] { deref(work, "work").work.cancel(); });
}
void slipring_work_destroy(slipring_work_t* work) {
  delete work;
}

slipring_status_t slipring_iall_reduce(slipring_comm_t* comm, slipring_const_buffer_t in,
                                       slipring_buffer_t out, size_t count, slipring_dtype_t type,
                                       slipring_redop_t op, slipring_work_t** work) {
  return started(
      work, [&] { return use(comm).iall_reduce(buffer(in), buffer(out), count, dtype(type), redop(op)); });
}
slipring_status_t slipring_ireduce(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out,
                                   size_t count, slipring_dtype_t type, slipring_redop_t op, int32_t root,
                                   slipring_work_t** work) {
  return started(
      work, [&] { return use(comm).ireduce(buffer(in), buffer(out), count, dtype(type), redop(op), root); });
}
slipring_status_t slipring_ibroadcast(slipring_comm_t* comm, slipring_buffer_t data, size_t count,
                                      slipring_dtype_t type, int32_t root, slipring_work_t** work) {
  return started(work, [&] { return use(comm).ibroadcast(buffer(data), count, dtype(type), root); });
}
slipring_status_t slipring_ibarrier(slipring_comm_t* comm, slipring_work_t** work) {
  return started(work, [&] { return use(comm).ibarrier(); });
}
slipring_status_t slipring_iall_gather(slipring_comm_t* comm, slipring_const_buffer_t in,
                                       slipring_buffer_t out, size_t count, slipring_dtype_t type,
                                       slipring_work_t** work) {
  return started(work, [&] { return use(comm).iall_gather(buffer(in), buffer(out), count, dtype(type)); });
}
slipring_status_t slipring_iall_gather_dim(slipring_comm_t* comm, slipring_const_buffer_t in,
                                           slipring_buffer_t out, const size_t* shape, size_t dims,
                                           int32_t dim, slipring_dtype_t type, slipring_work_t** work) {
  return started(work, [&] {
    return use(comm).iall_gather(buffer(in), buffer(out), shape_of(shape, dims), dim, dtype(type));
  });
}
slipring_status_t slipring_iall_gatherv(slipring_comm_t* comm, slipring_const_buffer_t in,
                                        slipring_buffer_t out, const size_t* counts, slipring_dtype_t type,
                                        slipring_work_t** work) {
  return started(work, [&] {
    return use(comm).iall_gatherv(buffer(in), buffer(out), per_rank(use(comm), counts, "counts"),
                                  dtype(type));
  });
}
slipring_status_t slipring_ireduce_scatter(slipring_comm_t* comm, slipring_const_buffer_t in,
                                           slipring_buffer_t out, size_t count, slipring_dtype_t type,
                                           slipring_redop_t op, slipring_work_t** work) {
  return started(work, [&] {
    return use(comm).ireduce_scatter(buffer(in), buffer(out), count, dtype(type), redop(op));
  });
}
slipring_status_t slipring_ireduce_scatter_dim(slipring_comm_t* comm, slipring_const_buffer_t in,
                                               slipring_buffer_t out, const size_t* shape, size_t dims,
                                               int32_t dim, slipring_dtype_t type, slipring_redop_t op,
                                               slipring_work_t** work) {
  return started(work, [&] {
    return use(comm).ireduce_scatter(buffer(in), buffer(out), shape_of(shape, dims), dim, dtype(type),
                                     redop(op));
  });
}
slipring_status_t slipring_ireduce_scatterv(slipring_comm_t* comm, slipring_const_buffer_t in,
                                            slipring_buffer_t out, const size_t* counts,
                                            slipring_dtype_t type, slipring_redop_t op,
                                            slipring_work_t** work) {
  return started(work, [&] {
    return use(comm).ireduce_scatterv(buffer(in), buffer(out), per_rank(use(comm), counts, "counts"),
                                      dtype(type), redop(op));
  });
}
slipring_status_t slipring_igather(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out,
                                   size_t count, slipring_dtype_t type, int32_t root,
                                   slipring_work_t** work) {
  return started(work, [&] { return use(comm).igather(buffer(in), buffer(out), count, dtype(type), root); });
}
slipring_status_t slipring_igatherv(slipring_comm_t* comm, slipring_const_buffer_t in, size_t count,
                                    slipring_buffer_t out, const size_t* counts, slipring_dtype_t type,
                                    int32_t root, slipring_work_t** work) {
  return started(work, [&] {
    return use(comm).igatherv(buffer(in), count, buffer(out), on_root(use(comm), counts, root), dtype(type),
                              root);
  });
}
slipring_status_t slipring_iscatter(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out,
                                    size_t count, slipring_dtype_t type, int32_t root,
                                    slipring_work_t** work) {
  return started(work, [&] { return use(comm).iscatter(buffer(in), buffer(out), count, dtype(type), root); });
}
slipring_status_t slipring_iscatterv(slipring_comm_t* comm, slipring_const_buffer_t in, const size_t* counts,
                                     slipring_buffer_t out, size_t count, slipring_dtype_t type, int32_t root,
                                     slipring_work_t** work) {
  return started(work, [&] {
    return use(comm).iscatterv(buffer(in), on_root(use(comm), counts, root), buffer(out), count, dtype(type),
                               root);
  });
}
slipring_status_t slipring_iall_to_all(slipring_comm_t* comm, slipring_const_buffer_t in,
                                       slipring_buffer_t out, size_t count, slipring_dtype_t type,
                                       slipring_work_t** work) {
  return started(work, [&] { return use(comm).iall_to_all(buffer(in), buffer(out), count, dtype(type)); });
}
slipring_status_t slipring_iall_to_allv(slipring_comm_t* comm, slipring_const_buffer_t in,
                                        const size_t* in_counts, slipring_buffer_t out,
                                        const size_t* out_counts, slipring_dtype_t type,
                                        slipring_work_t** work) {
  return started(work, [&] {
    return use(comm).iall_to_allv(buffer(in), per_rank(use(comm), in_counts, "in_counts"), buffer(out),
                                  per_rank(use(comm), out_counts, "out_counts"), dtype(type));
  });
}
slipring_status_t slipring_isend(slipring_comm_t* comm, const void* data, size_t bytes, int32_t peer,
                                 slipring_work_t** work) {
  return started(work, [&] { return use(comm).isend(data, bytes, peer); });
}
slipring_status_t slipring_irecv(slipring_comm_t* comm, void* data, size_t bytes, int32_t peer,
                                 slipring_work_t** work) {
  return started(work, [&] { return use(comm).irecv(data, bytes, peer); });
}

}  // extern "C"
