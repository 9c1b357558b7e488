/* A C program that uses slipring.h alone. The ranks are processes that it forks first; they get the unique id through
   pipes, as a caller would carry it by means of its own. Exit status 0 if all is well on every rank. */
#include <slipring/slipring.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 3, COUNT = 1000 };

static int failures = 0;
static int rank_here = -1;

#define CHECK(condition)                                                                                    \
  do {                                                                                                      \
    if (!(condition)) {                                                                                     \
      fprintf(stderr, "rank %d, line %d: %s; last error: %s\n", rank_here, __LINE__, #condition, slipring_last_error()); \
      ++failures;                                                                                           \
    }                                                                                                       \
  } while (0)
#define OK(call) CHECK((call) == SLIPRING_OK)

static void reductions(slipring_comm_t* comm) {
  static float x[COUNT], y[COUNT];
  for (int i = 0; i < COUNT; ++i) x[i] = (float)(rank_here + i);
  OK(slipring_all_reduce(comm, slipring_host(x), slipring_host_out(y), COUNT, SLIPRING_F32, SLIPRING_SUM));
  for (int i = 0; i < COUNT; ++i) CHECK(y[i] == (float)(3 * i + 3));
  memset(y, 0, sizeof y);
  OK(slipring_reduce(comm, slipring_host(x), slipring_host_out(rank_here == 1 ? y : NULL), COUNT, SLIPRING_F32, SLIPRING_MAX, 1));
  for (int i = 0; i < COUNT; ++i) CHECK(y[i] == (rank_here == 1 ? (float)(2 + i) : 0.0f));

  int64_t wide[RANKS * 2], part[4] = {-1, -1, -1, -1};
  for (int i = 0; i < RANKS * 2; ++i) wide[i] = i + rank_here;
  OK(slipring_reduce_scatter(comm, slipring_host(wide), slipring_host_out(part), 2, SLIPRING_I64, SLIPRING_SUM));
  CHECK(part[0] == 6 * rank_here + 3 && part[1] == 6 * rank_here + 6 && part[2] == -1);
  const size_t shape[2] = {2, RANKS}, counts[RANKS] = {0, 4, 2};
  OK(slipring_reduce_scatter_dim(comm, slipring_host(wide), slipring_host_out(part), shape, 2, -1, SLIPRING_I64, SLIPRING_SUM));
  CHECK(part[0] == 3 * rank_here + 3 && part[1] == 3 * (rank_here + RANKS) + 3);
  OK(slipring_reduce_scatterv(comm, slipring_host(wide), slipring_host_out(part), counts, SLIPRING_I64, SLIPRING_SUM));
  CHECK(part[0] == (rank_here == 0 ? 3 * 0 + 3 : rank_here == 1 ? 3 : 15));
}

static void moves(slipring_comm_t* comm) {
  int32_t all[RANKS * RANKS], mine[RANKS], got[RANKS * RANKS];
  const size_t counts[RANKS] = {1, 0, 2}, ones[RANKS] = {1, 1, 1}, shape[2] = {1, 1};
  for (int i = 0; i < RANKS; ++i) mine[i] = 10 * rank_here + i;

  OK(slipring_all_gather(comm, slipring_host(mine), slipring_host_out(all), RANKS, SLIPRING_I32));
  for (int i = 0; i < RANKS * RANKS; ++i) CHECK(all[i] == 10 * (i / RANKS) + i % RANKS);
  OK(slipring_all_gather_dim(comm, slipring_host(mine), slipring_host_out(got), shape, 2, 1, SLIPRING_I32));
  for (int i = 0; i < RANKS; ++i) CHECK(got[i] == 10 * i);
  OK(slipring_all_gatherv(comm, slipring_host(mine), slipring_host_out(got), counts, SLIPRING_I32));
  CHECK(got[0] == 0 && got[1] == 20 && got[2] == 21);
  memset(got, 0, sizeof got);
  OK(slipring_gather(comm, slipring_host(mine), slipring_host_out(got), 1, SLIPRING_I32, 2));
  CHECK(got[2] == (rank_here == 2 ? 20 : 0));
  OK(slipring_gatherv(comm, slipring_host(mine), counts[rank_here], slipring_host_out(got), counts, SLIPRING_I32, 0));
  CHECK(rank_here != 0 || (got[0] == 0 && got[1] == 20 && got[2] == 21));
  OK(slipring_scatter(comm, slipring_host(all), slipring_host_out(got), RANKS, SLIPRING_I32, 1));
  CHECK(got[1] == 10 * rank_here + 1);
  OK(slipring_scatterv(comm, slipring_host(all), counts, slipring_host_out(got), counts[rank_here], SLIPRING_I32, 0));
  CHECK(rank_here == 1 || got[0] == (rank_here == 0 ? 0 : 1));
  OK(slipring_all_to_all(comm, slipring_host(mine), slipring_host_out(got), 1, SLIPRING_I32));
  for (int i = 0; i < RANKS; ++i) CHECK(got[i] == 10 * i + rank_here);
  OK(slipring_all_to_allv(comm, slipring_host(mine), ones, slipring_host_out(got), ones, SLIPRING_I32));
  for (int i = 0; i < RANKS; ++i) CHECK(got[i] == 10 * i + rank_here);
  OK(slipring_broadcast(comm, slipring_host_out(mine), 1, SLIPRING_I32, 2));
  CHECK(mine[0] == 20);
  OK(slipring_barrier(comm));
}

static void messages(slipring_comm_t* comm) {
  const int32_t next = (rank_here + 1) % RANKS, previous = (rank_here + RANKS - 1) % RANKS;
  int32_t sent = rank_here, got = -1;
  OK(slipring_send(comm, &sent, sizeof sent, next));
  OK(slipring_recv(comm, &got, sizeof got, previous));
  CHECK(got == previous);

  if (rank_here == 0) {
    slipring_producer_t* producer = NULL;
    void* slot = NULL;
    OK(slipring_producer_open(comm, 1, &producer));
    CHECK(slipring_producer_max_loan_bytes(producer) >= 4096);
    OK(slipring_producer_loan(producer, 5, &slot));
    memcpy(slot, "slot", 5);
    OK(slipring_producer_publish(producer));
    OK(slipring_producer_try_loan(producer, 3, &slot));
    memcpy(slot, "ab", 3);
    OK(slipring_producer_publish(producer));
    OK(slipring_producer_write(producer, "copied", 7));
    slipring_producer_destroy(producer);
  } else if (rank_here == 1) {
    slipring_consumer_t* consumer = NULL;
    const void* message = NULL;
    size_t bytes = 0;
    char text[7];
    OK(slipring_consumer_open(comm, 0, &consumer));
    OK(slipring_consumer_peek(consumer, &message, &bytes));
    CHECK(bytes == 5 && strcmp(message, "slot") == 0);
    OK(slipring_consumer_release(consumer));
    OK(slipring_consumer_peek(consumer, &message, &bytes));
    OK(slipring_consumer_release(consumer));
    OK(slipring_consumer_read(consumer, text, sizeof text));
    CHECK(strcmp(text, "copied") == 0);
    slipring_status_t end;
    while ((end = slipring_consumer_try_peek(consumer, &message, &bytes)) == SLIPRING_WOULD_BLOCK) usleep(100);
    CHECK(end == SLIPRING_CLOSED);
    slipring_consumer_destroy(consumer);
  }
}

static void asynchronous(slipring_comm_t* comm) {
  static float x[COUNT], y[COUNT];
  const int32_t next = (rank_here + 1) % RANKS, previous = (rank_here + RANKS - 1) % RANKS;
  int32_t sent = rank_here, got = -1, done = 0;
  slipring_work_t *sum = NULL, *send = NULL, *receive = NULL, *none = NULL;
  for (int i = 0; i < COUNT; ++i) x[i] = (float)rank_here;
  OK(slipring_irecv(comm, &got, sizeof got, previous, &receive));
  OK(slipring_iall_reduce(comm, slipring_host(x), slipring_host_out(y), COUNT, SLIPRING_F32, SLIPRING_SUM, &sum));
  OK(slipring_isend(comm, &sent, sizeof sent, next, &send));
  while (slipring_work_test(send, &done) == SLIPRING_OK && !done) {
  }
  OK(slipring_work_wait(receive));
  OK(slipring_work_wait(sum));
  OK(slipring_work_wait_for(sum, 0, &done));
  CHECK(done && got == previous && y[COUNT - 1] == 3.0f);
  slipring_work_destroy(sum);
  slipring_work_destroy(send);
  slipring_work_destroy(receive);
  slipring_work_destroy(NULL);
  CHECK(slipring_ibroadcast(comm, slipring_host_out(x), COUNT, SLIPRING_F32, RANKS, &none) == SLIPRING_INVALID_ARGUMENT && none == NULL);
  OK(slipring_ibarrier(comm, &none));
  OK(slipring_work_wait(none));
  slipring_work_destroy(none);
  uint16_t half[3] = {0x3c00, 0x4000, 0xc000}; /* 1, 2, -2 */
  OK(slipring_all_reduce(comm, slipring_host(half), slipring_host_out(half), 3, SLIPRING_F16, SLIPRING_SUM));
  CHECK(half[0] == 0x4200 && half[1] == 0x4600 && half[2] == 0xc600); /* 3, 6, -6 */
  CHECK(slipring_all_reduce(comm, slipring_host(half), slipring_host_out(half), 3, SLIPRING_FP8_E4M3, SLIPRING_SUM) == SLIPRING_UNSUPPORTED);
}

static void groups(slipring_comm_t* comm) {
  slipring_comm_t *pair = NULL, *list = NULL;
  const int32_t ranks[2] = {2, 0};
  OK(slipring_comm_split(comm, rank_here == 1 ? -1 : 0, -rank_here, &pair));
  CHECK((pair == NULL) == (rank_here == 1));
  OK(slipring_comm_create_group(comm, ranks, 2, &list));
  CHECK(slipring_comm_size(list) == (rank_here == 1 ? 0 : 2) && slipring_comm_rank(list) == (rank_here == 1 ? -1 : rank_here == 0));
  CHECK(slipring_comm_rank(pair) == slipring_comm_rank(list));
  int32_t x = 1;
  if (list) OK(slipring_all_reduce(list, slipring_host(&x), slipring_host_out(&x), 1, SLIPRING_I32, SLIPRING_SUM));
  CHECK(x == (rank_here == 1 ? 1 : 2));
  slipring_comm_destroy(pair);
  slipring_comm_destroy(list);
}

static void refusals(slipring_comm_t* comm) {
  float x[4] = {0};
  CHECK(slipring_all_reduce(comm, slipring_host(NULL), slipring_host_out(x), 4, SLIPRING_F32, SLIPRING_SUM) == SLIPRING_INVALID_ARGUMENT);
  CHECK(strstr(slipring_last_error(), "input buffer is null") != NULL);
  CHECK(slipring_all_reduce(comm, slipring_host(x), slipring_host_out(x), 4, 77, SLIPRING_SUM) == SLIPRING_INVALID_ARGUMENT);
  CHECK(slipring_all_reduce(comm, slipring_host(x), slipring_host_out(x), 4, -1, SLIPRING_SUM) == SLIPRING_INVALID_ARGUMENT);
  CHECK(slipring_all_reduce(comm, slipring_host(x), slipring_host_out(x), 4, SLIPRING_F32, 1000) == SLIPRING_INVALID_ARGUMENT);
  CHECK(slipring_all_reduce(comm, slipring_host(x), slipring_host_out(x), (size_t)-4, SLIPRING_F32, SLIPRING_SUM) == SLIPRING_INVALID_ARGUMENT);
  CHECK(slipring_broadcast(comm, slipring_host_out(x), 4, SLIPRING_F32, RANKS) == SLIPRING_INVALID_ARGUMENT);
  CHECK(slipring_all_reduce(comm, slipring_host(x), slipring_host_out(x), 4, SLIPRING_BOOL, SLIPRING_MAX) == SLIPRING_UNSUPPORTED);
  CHECK(strstr(slipring_last_error(), "bool is carried but not reduced; reduce the same bytes as u8") != NULL);
  slipring_const_buffer_t elsewhere = {x, 3, 0};
  CHECK(slipring_all_reduce(comm, elsewhere, slipring_host_out(x), 4, SLIPRING_F32, SLIPRING_SUM) == SLIPRING_UNSUPPORTED);
  CHECK(slipring_all_gatherv(comm, slipring_host(x), slipring_host_out(x), NULL, SLIPRING_F32) == SLIPRING_INVALID_ARGUMENT);
  CHECK(strstr(slipring_last_error(), "counts is null") != NULL);
  CHECK(slipring_barrier(NULL) == SLIPRING_INVALID_ARGUMENT);
  CHECK(slipring_comm_split(comm, 0, 0, NULL) == SLIPRING_INVALID_ARGUMENT);
  slipring_options_t old = SLIPRING_OPTIONS_INIT;
  slipring_comm_t* none = NULL;
  old.struct_size = 8;
  CHECK(slipring_comm_join(&old, &none) == SLIPRING_INVALID_ARGUMENT && none == NULL);
  slipring_unique_id_t garbage = {"slipring-id-1,what"};
  CHECK(slipring_comm_join_id(&garbage, 0, 2, NULL, &none) == SLIPRING_INVALID_ARGUMENT);
  OK(slipring_barrier(comm));  /* still usable */
}

static int run_rank(const slipring_unique_id_t* id) {
  slipring_options_t options = SLIPRING_OPTIONS_INIT;
  const slipring_config_entry_t config[1] = {{"op.timeout_ms", "20000"}};
  options.config = config;
  options.config_count = 1;
  slipring_comm_t* comm = NULL;
  OK(slipring_comm_join_id(id, rank_here, RANKS, &options, &comm));
  if (comm == NULL) return 1;
  CHECK(slipring_comm_rank(comm) == rank_here && slipring_comm_size(comm) == RANKS);
  CHECK(slipring_comm_local_size(comm) == RANKS && slipring_comm_local_rank(comm) == rank_here && slipring_comm_nodes(comm) == 1);
  reductions(comm);
  moves(comm);
  messages(comm);
  asynchronous(comm);
  groups(comm);
  refusals(comm);

  slipring_selection_t selection = {.struct_size = sizeof selection};
  OK(slipring_comm_explain(comm, "all_reduce", 64, &selection));
  CHECK(strcmp(selection.algorithm, "one_shot") == 0 && strcmp(selection.transport, "shm") == 0 && selection.reason[0] != '\0');
  void* memory = NULL;
  OK(slipring_heap_allocate(comm, 4096, &memory));
  OK(slipring_broadcast(comm, slipring_host_out(memory), 1024, SLIPRING_F32, 0));
  OK(slipring_barrier(comm));
  slipring_heap_free(comm, memory);

  OK(slipring_barrier(comm));
  if (rank_here == 2) slipring_comm_abort(comm, "the program has seen enough");
  CHECK(slipring_barrier(comm) == SLIPRING_ABORTED);
  CHECK(strstr(slipring_last_error(), "seen enough") != NULL);
  slipring_comm_destroy(comm);
  slipring_comm_destroy(NULL);
  return failures != 0;
}

/* The process's world: the same again is no operation, anything else shows both. */
static int run_world(void) {
  slipring_comm_t *world = NULL, *again = NULL;
  slipring_options_t options = SLIPRING_OPTIONS_INIT;
  options.rank = 0;
  options.size = 1;
  OK(slipring_init(&options, &world));
  OK(slipring_init(&options, &again));
  CHECK(world == again && slipring_comm_size(world) == 1);
  options.size = 2;
  CHECK(slipring_init(&options, &again) == SLIPRING_INVALID_ARGUMENT);
  CHECK(strstr(slipring_last_error(), "size 1") != NULL && strstr(slipring_last_error(), "size 2") != NULL);
  OK(slipring_barrier(world));
  slipring_comm_destroy(world); /* not the caller's: no operation */
  OK(slipring_barrier(world));
  slipring_finalize();
  slipring_finalize();
  options.size = 1;
  OK(slipring_init(&options, &world));
  slipring_finalize();
  return failures != 0;
}

int main(void) {
  int to_rank[RANKS][2];
  pid_t children[RANKS];
  CHECK(slipring_abi_version() == SLIPRING_ABI_VERSION && strlen(slipring_version()) >= 5);
  CHECK(strcmp(slipring_status_name(SLIPRING_PEER_LOST), "peer_lost") == 0 && strcmp(slipring_status_name(99), "unknown") == 0);
  CHECK(slipring_dtype_bytes(SLIPRING_I64) == 8 && slipring_dtype_bytes(SLIPRING_BF16) == 2 && slipring_dtype_bytes(-1) == 0 && slipring_dtype_bytes(1000) == 0);
  for (int r = 1; r < RANKS; ++r) {
    if (pipe(to_rank[r]) != 0) return 1;
    children[r] = fork();
    if (children[r] < 0) return 1;
    if (children[r] == 0) {
      slipring_unique_id_t id;
      rank_here = r;
      return read(to_rank[r][0], &id, sizeof id) == sizeof id ? run_rank(&id) : 1;
    }
  }
  rank_here = 0;
  slipring_unique_id_t id;
  OK(slipring_get_unique_id(NULL, &id));
  for (int r = 1; r < RANKS; ++r) CHECK(write(to_rank[r][1], &id, sizeof id) == sizeof id);
  run_rank(&id);
  for (int r = 1; r < RANKS; ++r) {
    int status = -1;
    waitpid(children[r], &status, 0);
    CHECK(status == 0);
  }
  run_world();
  if (failures == 0) puts("the C program is content");
  return failures != 0;
}
