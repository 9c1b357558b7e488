/* slipring.h: Slipring for C and for languages that call C.
 *
 *   slipring_options_t options = SLIPRING_OPTIONS_INIT;    // rank, size and store from the environment
 *   slipring_comm_t* comm = NULL;
 *   if (slipring_comm_join(&options, &comm) != SLIPRING_OK) { puts(slipring_last_error()); return 1; }
 *   slipring_all_reduce(comm, slipring_host(x), slipring_host_out(x), n, SLIPRING_F32, SLIPRING_SUM);
 *   slipring_comm_destroy(comm);
 *
 * Every function returns SLIPRING_OK or the number of a status, and then slipring_last_error() has the text, on the
 * thread that called. Nothing is written to output parameters on failure. Handles are opaque; each is destroyed by the
 * function that its type names, which takes NULL too. Counts are in elements unless a name says bytes.
 *
 * What holds for the calls of C++ holds here: every rank of a communicator calls the same operations in the same order;
 * ranks that disagree all get SLIPRING_MISMATCH; each call is bounded by op.timeout_ms; the first failure poisons the
 * communicator. Thread-safety: one thread at a time per communicator or channel, any number of them at the same time;
 * slipring_comm_abort and slipring_last_error from any thread.
 *
 * ABI: structs begin with their size, so that a caller built against an older header keeps working; numbers and
 * structs only grow at the end; the SONAME changes when that promise would break.
 */
#ifndef SLIPRING_SLIPRING_H
#define SLIPRING_SLIPRING_H

#include <stddef.h>
#include <stdint.h>

#include "slipring/export.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SLIPRING_ABI_VERSION 1

/* Of the library that is linked, to be compared with SLIPRING_ABI_VERSION; and its version as text, "0.1.0". */
SLIPRING_API uint32_t slipring_abi_version(void);
SLIPRING_API const char* slipring_version(void);

/* ---- status ---- */

typedef int32_t slipring_status_t;
enum {
  SLIPRING_OK = 0,
  SLIPRING_INVALID_ARGUMENT = 1, /* can never work */
  SLIPRING_TIMEOUT = 2,          /* the text says who was awaited */
  SLIPRING_PEER_LOST = 3,
  SLIPRING_MISMATCH = 4,         /* ranks called different operations; the text shows both */
  SLIPRING_ABORTED = 5,
  SLIPRING_CLOSED = 6,
  SLIPRING_OUT_OF_MEMORY = 7,
  SLIPRING_UNAVAILABLE = 8,      /* the system lacks or denies something */
  SLIPRING_UNSUPPORTED = 9,      /* not offered by this build or type */
  SLIPRING_SYSTEM_ERROR = 10,
  SLIPRING_CORRUPT = 11,
  SLIPRING_WOULD_BLOCK = 12      /* a try_ call found no room or no data; leaves the last error as it was */
};

/* Text of the last failure on this thread, "" before the first; valid until this thread's next call that fails. */
SLIPRING_API const char* slipring_last_error(void);
/* "timeout", "peer_lost", ...; "unknown" for other numbers. */
SLIPRING_API const char* slipring_status_name(slipring_status_t status);

/* ---- types, operators, buffers ---- */

typedef int32_t slipring_dtype_t;
enum {
  SLIPRING_F32 = 0,
  SLIPRING_F64 = 1,
  SLIPRING_I32 = 2,
  SLIPRING_I64 = 3,
  SLIPRING_I8 = 4,
  SLIPRING_U8 = 5,
  SLIPRING_U32 = 6,
  SLIPRING_U64 = 7,
  SLIPRING_F16 = 8,
  SLIPRING_BF16 = 9,
  SLIPRING_BOOL = 10,     /* from here on carried, not reduced: a reduction is SLIPRING_UNSUPPORTED */
  SLIPRING_FP8_E4M3 = 11,
  SLIPRING_FP8_E5M2 = 12
};
/* Bytes of one element; 0 for an unknown number. */
SLIPRING_API size_t slipring_dtype_bytes(slipring_dtype_t dtype);

typedef int32_t slipring_redop_t;
enum { SLIPRING_SUM = 0, SLIPRING_PROD = 1, SLIPRING_MIN = 2, SLIPRING_MAX = 3, SLIPRING_AVG = 4 };

/* Where memory lies. Kinds are appended; a kind that this build does not reach is SLIPRING_UNSUPPORTED. */
enum { SLIPRING_DEVICE_HOST = 0 };
typedef struct slipring_const_buffer {
  const void* data;
  int32_t device_kind;
  int32_t device_index;
} slipring_const_buffer_t;
typedef struct slipring_buffer {
  void* data;
  int32_t device_kind;
  int32_t device_index;
} slipring_buffer_t;

static inline slipring_const_buffer_t slipring_host(const void* data) {
  slipring_const_buffer_t buffer = {data, SLIPRING_DEVICE_HOST, 0};
  return buffer;
}
static inline slipring_buffer_t slipring_host_out(void* data) {
  slipring_buffer_t buffer = {data, SLIPRING_DEVICE_HOST, 0};
  return buffer;
}

/* ---- communicators ---- */

typedef struct slipring_comm slipring_comm_t;

typedef struct slipring_config_entry {
  const char* key; /* as in docs/config.md, e.g. "op.timeout_ms" */
  const char* value;
} slipring_config_entry_t;

typedef struct slipring_options {
  size_t struct_size;     /* sizeof(slipring_options_t) */
  int32_t rank;           /* -1: from the environment */
  int32_t size;           /* -1: from the environment */
  const char* store;      /* URL or unique id; NULL: from the environment */
  const char* job_token;  /* NULL: from the environment */
  const slipring_config_entry_t* config; /* wins over environment and files */
  size_t config_count;
} slipring_options_t;
#define SLIPRING_OPTIONS_INIT {sizeof(slipring_options_t), -1, -1, NULL, NULL, NULL, 0}

/* A meeting, as bytes that the caller carries to the other ranks by its own means. They hold a secret. */
#define SLIPRING_UNIQUE_ID_BYTES 256
typedef struct slipring_unique_id {
  char bytes[SLIPRING_UNIQUE_ID_BYTES]; /* zero-terminated text */
} slipring_unique_id_t;

/* On one process, which must live until all ranks have joined. host: this machine's numeric address that the others
   reach; NULL: 127.0.0.1. */
SLIPRING_API slipring_status_t slipring_get_unique_id(const char* host, slipring_unique_id_t* id);

/* Meets the other ranks. options NULL: all from the environment. */
SLIPRING_API slipring_status_t slipring_comm_join(const slipring_options_t* options, slipring_comm_t** comm);
/* The same with a unique id; options may be NULL, and its rank, size, store and job_token are not looked at. */
SLIPRING_API slipring_status_t slipring_comm_join_id(const slipring_unique_id_t* id, int32_t rank, int32_t size,
                                                     const slipring_options_t* options, slipring_comm_t** comm);
/* Ranks of equal color, ordered by key and then rank; NULL in *group for a negative color. */
SLIPRING_API slipring_status_t slipring_comm_split(slipring_comm_t* comm, int32_t color, int32_t key, slipring_comm_t** group);
/* The listed ranks, in that order; NULL in *group on a rank that is not listed, which need not call. */
SLIPRING_API slipring_status_t slipring_comm_create_group(slipring_comm_t* comm, const int32_t* ranks, size_t count,
                                                          slipring_comm_t** group);
/* Flushes what was sent, bounded, and frees the handle. */
SLIPRING_API void slipring_comm_destroy(slipring_comm_t* comm);
/* Makes every pending and later call on every rank fail with SLIPRING_ABORTED. Any thread. */
SLIPRING_API void slipring_comm_abort(slipring_comm_t* comm, const char* reason);

/* -1 and 0 for NULL. */
SLIPRING_API int32_t slipring_comm_rank(const slipring_comm_t* comm);
SLIPRING_API int32_t slipring_comm_size(const slipring_comm_t* comm);
SLIPRING_API int32_t slipring_comm_local_rank(const slipring_comm_t* comm);
SLIPRING_API int32_t slipring_comm_local_size(const slipring_comm_t* comm);
SLIPRING_API int32_t slipring_comm_nodes(const slipring_comm_t* comm);

/* The process's own communicator: init joins once, and is no operation with the same options; others are
   SLIPRING_INVALID_ARGUMENT. The handle belongs to the library: slipring_finalize frees it, destroy must not. */
SLIPRING_API slipring_status_t slipring_init(const slipring_options_t* options, slipring_comm_t** world);
SLIPRING_API void slipring_finalize(void);

/* What an operation ("all_reduce", ...) of `bytes` would use, and why. Texts are cut to fit. */
typedef struct slipring_selection {
  size_t struct_size; /* sizeof(slipring_selection_t), set by the caller */
  char algorithm[32];
  char transport[32];
  uint64_t chunk_bytes;
  char reason[256];
} slipring_selection_t;
SLIPRING_API slipring_status_t slipring_comm_explain(slipring_comm_t* comm, const char* operation, size_t bytes,
                                                     slipring_selection_t* selection);

/* Memory that every rank of the node reaches: collectives on it need no staging. 64-byte aligned. */
SLIPRING_API slipring_status_t slipring_heap_allocate(slipring_comm_t* comm, size_t bytes, void** memory);
SLIPRING_API void slipring_heap_free(slipring_comm_t* comm, void* memory);

/* ---- collectives: shapes and rules as in slipring/communicator.h ---- */

SLIPRING_API slipring_status_t slipring_all_reduce(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out,
                                                   size_t count, slipring_dtype_t dtype, slipring_redop_t op);
SLIPRING_API slipring_status_t slipring_reduce(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out, size_t count,
                                               slipring_dtype_t dtype, slipring_redop_t op, int32_t root);
SLIPRING_API slipring_status_t slipring_broadcast(slipring_comm_t* comm, slipring_buffer_t buffer, size_t count,
                                                  slipring_dtype_t dtype, int32_t root);
SLIPRING_API slipring_status_t slipring_barrier(slipring_comm_t* comm);
/* out: size * count elements. */
SLIPRING_API slipring_status_t slipring_all_gather(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out,
                                                   size_t count, slipring_dtype_t dtype);
/* The inputs, each of shape[dims], joined along dimension dim; negative dim counts from the end. */
SLIPRING_API slipring_status_t slipring_all_gather_dim(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out,
                                                       const size_t* shape, size_t dims, int32_t dim, slipring_dtype_t dtype);
/* counts: one per rank, the same on all. */
SLIPRING_API slipring_status_t slipring_all_gatherv(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out,
                                                    const size_t* counts, slipring_dtype_t dtype);
/* in: size * count elements. */
SLIPRING_API slipring_status_t slipring_reduce_scatter(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out,
                                                       size_t count, slipring_dtype_t dtype, slipring_redop_t op);
SLIPRING_API slipring_status_t slipring_reduce_scatter_dim(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out,
                                                           const size_t* shape, size_t dims, int32_t dim, slipring_dtype_t dtype,
                                                           slipring_redop_t op);
SLIPRING_API slipring_status_t slipring_reduce_scatterv(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out,
                                                        const size_t* counts, slipring_dtype_t dtype, slipring_redop_t op);
/* out: size * count elements on the root; not looked at elsewhere. */
SLIPRING_API slipring_status_t slipring_gather(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out, size_t count,
                                               slipring_dtype_t dtype, int32_t root);
/* counts are looked at on the root only. */
SLIPRING_API slipring_status_t slipring_gatherv(slipring_comm_t* comm, slipring_const_buffer_t in, size_t count, slipring_buffer_t out,
                                                const size_t* counts, slipring_dtype_t dtype, int32_t root);
/* in: size * count elements on the root; not looked at elsewhere. */
SLIPRING_API slipring_status_t slipring_scatter(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out, size_t count,
                                                slipring_dtype_t dtype, int32_t root);
SLIPRING_API slipring_status_t slipring_scatterv(slipring_comm_t* comm, slipring_const_buffer_t in, const size_t* counts,
                                                 slipring_buffer_t out, size_t count, slipring_dtype_t dtype, int32_t root);
SLIPRING_API slipring_status_t slipring_all_to_all(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out,
                                                   size_t count, slipring_dtype_t dtype);
SLIPRING_API slipring_status_t slipring_all_to_allv(slipring_comm_t* comm, slipring_const_buffer_t in, const size_t* in_counts,
                                                    slipring_buffer_t out, const size_t* out_counts, slipring_dtype_t dtype);

/* ---- messages and channels ---- */

SLIPRING_API slipring_status_t slipring_send(slipring_comm_t* comm, const void* buffer, size_t bytes, int32_t peer);
SLIPRING_API slipring_status_t slipring_recv(slipring_comm_t* comm, void* buffer, size_t bytes, int32_t peer);

/* ---- asynchronous operations: how they advance and in which order, says slipring/work.h ---- */

/* One operation in flight. Destroying it does not end the operation. */
typedef struct slipring_work slipring_work_t;
/* *done becomes 1 when it has finished; its failure is returned then. Never waits. */
SLIPRING_API slipring_status_t slipring_work_test(slipring_work_t* work, int32_t* done);
/* Until it has finished; returns how. */
SLIPRING_API slipring_status_t slipring_work_wait(slipring_work_t* work);
/* At most `nanoseconds`; *done says whether it has finished. */
SLIPRING_API slipring_status_t slipring_work_wait_for(slipring_work_t* work, int64_t nanoseconds, int32_t* done);
/* Takes back a message of which nothing has moved; aborts the communicator for anything else that has not finished. */
SLIPRING_API slipring_status_t slipring_work_cancel(slipring_work_t* work);
SLIPRING_API void slipring_work_destroy(slipring_work_t* work);

/* As the blocking calls, with the handle in *work. Counts and shapes are copied; buffers belong to the operation. */
SLIPRING_API slipring_status_t slipring_iall_reduce(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out,
                                                    size_t count, slipring_dtype_t dtype, slipring_redop_t op,
                                                    slipring_work_t** work);
SLIPRING_API slipring_status_t slipring_ireduce(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out,
                                                size_t count, slipring_dtype_t dtype, slipring_redop_t op, int32_t root,
                                                slipring_work_t** work);
SLIPRING_API slipring_status_t slipring_ibroadcast(slipring_comm_t* comm, slipring_buffer_t buffer, size_t count,
                                                   slipring_dtype_t dtype, int32_t root, slipring_work_t** work);
SLIPRING_API slipring_status_t slipring_ibarrier(slipring_comm_t* comm, slipring_work_t** work);
SLIPRING_API slipring_status_t slipring_iall_gather(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out,
                                                    size_t count, slipring_dtype_t dtype, slipring_work_t** work);
SLIPRING_API slipring_status_t slipring_iall_gather_dim(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out,
                                                        const size_t* shape, size_t dims, int32_t dim, slipring_dtype_t dtype,
                                                        slipring_work_t** work);
SLIPRING_API slipring_status_t slipring_iall_gatherv(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out,
                                                     const size_t* counts, slipring_dtype_t dtype, slipring_work_t** work);
SLIPRING_API slipring_status_t slipring_ireduce_scatter(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out,
                                                        size_t count, slipring_dtype_t dtype, slipring_redop_t op,
                                                        slipring_work_t** work);
SLIPRING_API slipring_status_t slipring_ireduce_scatter_dim(slipring_comm_t* comm, slipring_const_buffer_t in,
                                                            slipring_buffer_t out, const size_t* shape, size_t dims, int32_t dim,
                                                            slipring_dtype_t dtype, slipring_redop_t op,
                                                            slipring_work_t** work);
SLIPRING_API slipring_status_t slipring_ireduce_scatterv(slipring_comm_t* comm, slipring_const_buffer_t in,
                                                         slipring_buffer_t out, const size_t* counts, slipring_dtype_t dtype,
                                                         slipring_redop_t op, slipring_work_t** work);
SLIPRING_API slipring_status_t slipring_igather(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out,
                                                size_t count, slipring_dtype_t dtype, int32_t root, slipring_work_t** work);
SLIPRING_API slipring_status_t slipring_igatherv(slipring_comm_t* comm, slipring_const_buffer_t in, size_t count,
                                                 slipring_buffer_t out, const size_t* counts, slipring_dtype_t dtype,
                                                 int32_t root, slipring_work_t** work);
SLIPRING_API slipring_status_t slipring_iscatter(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out,
                                                 size_t count, slipring_dtype_t dtype, int32_t root, slipring_work_t** work);
SLIPRING_API slipring_status_t slipring_iscatterv(slipring_comm_t* comm, slipring_const_buffer_t in, const size_t* counts,
                                                  slipring_buffer_t out, size_t count, slipring_dtype_t dtype, int32_t root,
                                                  slipring_work_t** work);
SLIPRING_API slipring_status_t slipring_iall_to_all(slipring_comm_t* comm, slipring_const_buffer_t in, slipring_buffer_t out,
                                                    size_t count, slipring_dtype_t dtype, slipring_work_t** work);
SLIPRING_API slipring_status_t slipring_iall_to_allv(slipring_comm_t* comm, slipring_const_buffer_t in, const size_t* in_counts,
                                                     slipring_buffer_t out, const size_t* out_counts, slipring_dtype_t dtype,
                                                     slipring_work_t** work);
SLIPRING_API slipring_status_t slipring_isend(slipring_comm_t* comm, const void* buffer, size_t bytes, int32_t peer,
                                              slipring_work_t** work);
SLIPRING_API slipring_status_t slipring_irecv(slipring_comm_t* comm, void* buffer, size_t bytes, int32_t peer,
                                              slipring_work_t** work);

typedef struct slipring_producer slipring_producer_t;
typedef struct slipring_consumer slipring_consumer_t;

/* Both sides call, in the same order; each returns when both have. An endpoint may outlive its communicator. */
SLIPRING_API slipring_status_t slipring_producer_open(slipring_comm_t* comm, int32_t peer, slipring_producer_t** producer);
SLIPRING_API slipring_status_t slipring_consumer_open(slipring_comm_t* comm, int32_t peer, slipring_consumer_t** consumer);
/* Closes and frees. */
SLIPRING_API void slipring_producer_destroy(slipring_producer_t* producer);
SLIPRING_API void slipring_consumer_destroy(slipring_consumer_t* consumer);

SLIPRING_API size_t slipring_producer_max_loan_bytes(const slipring_producer_t* producer);
/* Room for one message, valid until publish. The try_ forms return SLIPRING_WOULD_BLOCK instead of waiting. */
SLIPRING_API slipring_status_t slipring_producer_loan(slipring_producer_t* producer, size_t bytes, void** slot);
SLIPRING_API slipring_status_t slipring_producer_try_loan(slipring_producer_t* producer, size_t bytes, void** slot);
SLIPRING_API slipring_status_t slipring_producer_publish(slipring_producer_t* producer);
/* The oldest message, read in place, valid until release. */
SLIPRING_API slipring_status_t slipring_consumer_peek(slipring_consumer_t* consumer, const void** message, size_t* bytes);
SLIPRING_API slipring_status_t slipring_consumer_try_peek(slipring_consumer_t* consumer, const void** message, size_t* bytes);
SLIPRING_API slipring_status_t slipring_consumer_release(slipring_consumer_t* consumer);
/* The copying forms: any size, which must be the same on both sides. */
SLIPRING_API slipring_status_t slipring_producer_write(slipring_producer_t* producer, const void* data, size_t bytes);
SLIPRING_API slipring_status_t slipring_consumer_read(slipring_consumer_t* consumer, void* data, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
