#include "engine/c_api/c_api.h"

using namespace slipring;
using namespace slipring::engine;

extern "C" {

slipring_status_t slipring_send(slipring_comm_t* comm, const void* data, size_t bytes, int32_t peer) {
  return guarded([&] { use(comm).send(data, bytes, peer); });
}
slipring_status_t slipring_recv(slipring_comm_t* comm, void* data, size_t bytes, int32_t peer) {
  return guarded([&] { use(comm).recv(data, bytes, peer); });
}

slipring_status_t slipring_producer_open(slipring_comm_t* comm, int32_t peer, slipring_producer_t** producer) {
  return guarded([&] {
    deref(producer, "producer");
    *producer = new slipring_producer{use(comm).open_producer(peer)};
  });
}
slipring_status_t slipring_consumer_open(slipring_comm_t* comm, int32_t peer, slipring_consumer_t** consumer) {
  return guarded([&] {
    deref(consumer, "consumer");
    *consumer = new slipring_consumer{use(comm).open_consumer(peer)};
  });
}
void slipring_producer_destroy(slipring_producer_t* producer) { delete producer; }
void slipring_consumer_destroy(slipring_consumer_t* consumer) { delete consumer; }

size_t slipring_producer_max_loan_bytes(const slipring_producer_t* producer) {
  return producer == nullptr ? 0 : producer->producer.max_loan_bytes();
}

slipring_status_t slipring_producer_loan(slipring_producer_t* producer, size_t bytes, void** slot) {
  return guarded([&] {
    deref(slot, "slot");
    *slot = deref(producer, "producer").producer.loan(bytes).data();
  });
}
slipring_status_t slipring_producer_try_loan(slipring_producer_t* producer, size_t bytes, void** slot) {
  bool found = false;
  const slipring_status_t status = guarded([&] {
    deref(slot, "slot");
    const auto loaned = deref(producer, "producer").producer.try_loan(bytes);
    found = loaned.has_value();
    if (found) *slot = loaned->data();
  });
  return status == SLIPRING_OK && !found ? SLIPRING_WOULD_BLOCK : status;
}
slipring_status_t slipring_producer_publish(slipring_producer_t* producer) {
  return guarded([&] { deref(producer, "producer").producer.publish(); });
}

slipring_status_t slipring_consumer_peek(slipring_consumer_t* consumer, const void** message, size_t* bytes) {
  return guarded([&] {
    deref(message, "message");
    deref(bytes, "bytes");
    const auto found = deref(consumer, "consumer").consumer.peek();
    *message = found.data();
    *bytes = found.size();
  });
}
slipring_status_t slipring_consumer_try_peek(slipring_consumer_t* consumer, const void** message, size_t* bytes) {
  bool found = false;
  const slipring_status_t status = guarded([&] {
    deref(message, "message");
    deref(bytes, "bytes");
    const auto oldest = deref(consumer, "consumer").consumer.try_peek();
    found = oldest.has_value();
    if (!found) return;
    *message = oldest->data();
    *bytes = oldest->size();
  });
  return status == SLIPRING_OK && !found ? SLIPRING_WOULD_BLOCK : status;
}
slipring_status_t slipring_consumer_release(slipring_consumer_t* consumer) {
  return guarded([&] { deref(consumer, "consumer").consumer.release(); });
}

slipring_status_t slipring_producer_write(slipring_producer_t* producer, const void* data, size_t bytes) {
  return guarded([&] { deref(producer, "producer").producer.write(data, bytes); });
}
slipring_status_t slipring_consumer_read(slipring_consumer_t* consumer, void* data, size_t bytes) {
  return guarded([&] { deref(consumer, "consumer").consumer.read(data, bytes); });
}

}  // extern "C"
