#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/c_api/c_api.h"
#include "slipring/world.h"

using namespace slipring;
using namespace slipring::engine;

namespace {

// What callers of the first version of the ABI pass; later fields are read only if the caller's struct has them.
constexpr size_t kFirstOptionsBytes = offsetof(slipring_options_t, config_count) + sizeof(size_t);

JobOptions job_options(const slipring_options_t* c) {
  JobOptions options;
  if (c == nullptr) return options;
  if (c->struct_size < kFirstOptionsBytes)
    throw Error(base::error(StatusCode::invalid_argument, "options.struct_size is {}, at least {} is needed; begin with SLIPRING_OPTIONS_INIT",
                            c->struct_size, kFirstOptionsBytes));
  options.rank = c->rank;
  options.size = c->size;
  if (c->store != nullptr) options.store = c->store;
  if (c->job_token != nullptr) options.job_token = c->job_token;
  for (size_t i = 0; i < c->config_count; ++i) {
    const slipring_config_entry_t& entry = (&deref(c->config, "options.config"))[i];
    options.config[&deref(entry.key, "options.config[].key")] = &deref(entry.value, "options.config[].value");
  }
  return options;
}

slipring_comm_t* handle_of(Communicator comm) { return comm ? new slipring_comm(std::move(comm)) : nullptr; }

template <size_t N>
void copy_text(char (&to)[N], const std::string& from) {
  const size_t length = std::min(from.size(), N - 1);
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
}

struct World {
  std::mutex mutex;
  std::unique_ptr<slipring_comm> handle;
};
World& world_handle() {
  static auto* const instance = new World;  // never destroyed, as the world itself
  return *instance;
}

}  // namespace

extern "C" {

slipring_status_t slipring_get_unique_id(const char* host, slipring_unique_id_t* id) {
  return guarded([&] {
    deref(id, "id");
    const std::string text = host == nullptr ? create_unique_id() : create_unique_id(host);
    copy_text(id->bytes, text);
  });
}

slipring_status_t slipring_comm_join(const slipring_options_t* options, slipring_comm_t** comm) {
  return guarded([&] {
    deref(comm, "comm");
    *comm = handle_of(Communicator::join(job_options(options)));
  });
}

slipring_status_t slipring_comm_join_id(const slipring_unique_id_t* id, int32_t rank, int32_t size, const slipring_options_t* options,
                                        slipring_comm_t** comm) {
  return guarded([&] {
    deref(comm, "comm");
    JobOptions job = job_options(options);
    job.rank = rank;
    job.size = size;
    job.store.assign(deref(id, "id").bytes, strnlen(id->bytes, SLIPRING_UNIQUE_ID_BYTES));
    job.job_token.clear();
    *comm = handle_of(Communicator::join(job));
  });
}

slipring_status_t slipring_comm_split(slipring_comm_t* comm, int32_t color, int32_t key, slipring_comm_t** group) {
  return guarded([&] {
    deref(group, "group");
    *group = handle_of(use(comm).split(color, key));
  });
}

slipring_status_t slipring_comm_create_group(slipring_comm_t* comm, const int32_t* ranks, size_t count, slipring_comm_t** group) {
  return guarded([&] {
    deref(group, "group");
    *group = handle_of(use(comm).create_group({&deref(ranks, "ranks"), count}));
  });
}

void slipring_comm_destroy(slipring_comm_t* comm) {
  if (comm != nullptr && comm->comm == &comm->owned) delete comm;  // the world's handle is finalize's
}

void slipring_comm_abort(slipring_comm_t* comm, const char* reason) {
  if (comm != nullptr) comm->comm->abort(reason == nullptr ? "no reason given" : reason);
}

int32_t slipring_comm_rank(const slipring_comm_t* comm) { return comm == nullptr ? -1 : comm->comm->rank(); }
int32_t slipring_comm_size(const slipring_comm_t* comm) { return comm == nullptr ? 0 : comm->comm->size(); }
int32_t slipring_comm_local_rank(const slipring_comm_t* comm) { return comm == nullptr ? -1 : comm->comm->local_rank(); }
int32_t slipring_comm_local_size(const slipring_comm_t* comm) { return comm == nullptr ? 0 : comm->comm->local_size(); }
int32_t slipring_comm_nodes(const slipring_comm_t* comm) { return comm == nullptr ? 0 : comm->comm->nodes(); }

slipring_status_t slipring_init(const slipring_options_t* options, slipring_comm_t** world) {
  return guarded([&] {
    deref(world, "world");
    Communicator& comm = init(job_options(options));
    World& known = world_handle();
    const std::lock_guard lock(known.mutex);
    if (!known.handle || known.handle->comm != &comm) known.handle = std::make_unique<slipring_comm>(comm);
    *world = known.handle.get();
  });
}

void slipring_finalize(void) {
  World& known = world_handle();
  const std::lock_guard lock(known.mutex);
  known.handle.reset();
  finalize();
}

slipring_status_t slipring_comm_explain(slipring_comm_t* comm, const char* operation, size_t bytes, slipring_selection_t* selection) {
  return guarded([&] {
    if (deref(selection, "selection").struct_size < sizeof(slipring_selection_t))
      throw Error(base::error(StatusCode::invalid_argument, "selection.struct_size is {}, {} is needed", selection->struct_size,
                              sizeof(slipring_selection_t)));
    const Selection found = use(comm).explain(&deref(operation, "operation"), bytes);
    copy_text(selection->algorithm, found.algorithm);
    copy_text(selection->transport, found.transport);
    selection->chunk_bytes = found.chunk_bytes;
    copy_text(selection->reason, found.reason);
  });
}

slipring_status_t slipring_heap_allocate(slipring_comm_t* comm, size_t bytes, void** memory) {
  return guarded([&] {
    deref(memory, "memory");
    *memory = use(comm).heap_allocate(bytes);
  });
}

void slipring_heap_free(slipring_comm_t* comm, void* memory) {
  if (comm != nullptr) comm->comm->heap_free(memory);
}

}  // extern "C"
