#include "engine/c_api/c_api.h"

using namespace slipring;
using namespace slipring::engine;

extern "C" {

slipring_status_t slipring_all_reduce(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out, size_t count,
                                      slipring_dtype_t type, slipring_redop_t op) {
  return guarded([&] { use(comm).all_reduce(buffer(in), buffer(out), count, dtype(type), redop(op)); });
}

slipring_status_t slipring_reduce(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out, size_t count,
                                  slipring_dtype_t type, slipring_redop_t op, int32_t root) {
  return guarded([&] { use(comm).reduce(buffer(in), buffer(out), count, dtype(type), redop(op), root); });
}

slipring_status_t slipring_broadcast(slipring_comm_t* comm, slipring_buffer_t data, size_t count, slipring_dtype_t type, int32_t root) {
  return guarded([&] { use(comm).broadcast(buffer(data), count, dtype(type), root); });
}

slipring_status_t slipring_barrier(slipring_comm_t* comm) {
  return guarded([&] { use(comm).barrier(); });
}

slipring_status_t slipring_all_gather(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out, size_t count,
                                      slipring_dtype_t type) {
  return guarded([&] { use(comm).all_gather(buffer(in), buffer(out), count, dtype(type)); });
}

slipring_status_t slipring_all_gather_dim(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out, const size_t* shape,
                                          size_t dims, int32_t dim, slipring_dtype_t type) {
  return guarded([&] { use(comm).all_gather(buffer(in), buffer(out), shape_of(shape, dims), dim, dtype(type)); });
}

slipring_status_t slipring_all_gatherv(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out, const size_t* counts,
                                       slipring_dtype_t type) {
  return guarded([&] { use(comm).all_gatherv(buffer(in), buffer(out), per_rank(use(comm), counts, "counts"), dtype(type)); });
}

slipring_status_t slipring_reduce_scatter(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out, size_t count,
                                          slipring_dtype_t type, slipring_redop_t op) {
  return guarded([&] { use(comm).reduce_scatter(buffer(in), buffer(out), count, dtype(type), redop(op)); });
}

slipring_status_t slipring_reduce_scatter_dim(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out,
                                              const size_t* shape, size_t dims, int32_t dim, slipring_dtype_t type, slipring_redop_t op) {
  return guarded([&] { use(comm).reduce_scatter(buffer(in), buffer(out), shape_of(shape, dims), dim, dtype(type), redop(op)); });
}

slipring_status_t slipring_reduce_scatterv(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out, const size_t* counts,
                                           slipring_dtype_t type, slipring_redop_t op) {
  return guarded([&] {
    use(comm).reduce_scatterv(buffer(in), buffer(out), per_rank(use(comm), counts, "counts"), dtype(type), redop(op));
  });
}

slipring_status_t slipring_gather(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out, size_t count,
                                  slipring_dtype_t type, int32_t root) {
  return guarded([&] { use(comm).gather(buffer(in), buffer(out), count, dtype(type), root); });
}

slipring_status_t slipring_gatherv(slipring_comm_t* comm, slipring_const_buffer_t in, size_t count, slipring_buffer_t out,
                                   const size_t* counts, slipring_dtype_t type, int32_t root) {
  return guarded([&] { use(comm).gatherv(buffer(in), count, buffer(out), on_root(use(comm), counts, root), dtype(type), root); });
}

slipring_status_t slipring_scatter(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out, size_t count,
                                   slipring_dtype_t type, int32_t root) {
  return guarded([&] { use(comm).scatter(buffer(in), buffer(out), count, dtype(type), root); });
}

slipring_status_t slipring_scatterv(slipring_comm_t* comm, slipring_const_buffer_t in, const size_t* counts, slipring_buffer_t out,
                                    size_t count, slipring_dtype_t type, int32_t root) {
  return guarded([&] { use(comm).scatterv(buffer(in), on_root(use(comm), counts, root), buffer(out), count, dtype(type), root); });
}

slipring_status_t slipring_all_to_all(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out, size_t count,
                                      slipring_dtype_t type) {
  return guarded([&] { use(comm).all_to_all(buffer(in), buffer(out), count, dtype(type)); });
}

slipring_status_t slipring_all_to_allv(slipring_comm_t* comm, slipring_const_buffer_t in, const size_t* in_counts, slipring_buffer_t out,
                                       const size_t* out_counts, slipring_dtype_t type) {
  return guarded([&] {
    use(comm).all_to_allv(buffer(in), per_rank(use(comm), in_counts, "in_counts"), buffer(out),
                          per_rank(use(comm), out_counts, "out_counts"), dtype(type));
  });
}

}  // extern "C"
