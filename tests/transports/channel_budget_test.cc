// The budget that shm_channel.cc states: nothing allocated, nobody asked in the kernel, no CPU while idle.
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <new>
#include <thread>

#include "tests/transports/channel_rig.h"

namespace {
std::atomic<std::uint64_t> allocations{0};
}

// Not inlined, or g++ takes malloc and delete, or new and free, for a pair that does not match.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { operator delete(p); }
void operator delete(void* p, std::size_t) noexcept { operator delete(p); }
void operator delete[](void* p, std::size_t) noexcept { operator delete(p); }

namespace slipring::tests {
namespace {

TEST(ChannelBudget, AMessageAllocatesNothingAndDoesNotWait) {
  ChannelRig rig(Transport::inproc);
  auto& producer = rig.near().producer();
  auto& consumer = rig.far_here().consumer();
  std::span<std::byte> slot;
  std::span<const std::byte> message;
  // The static text of would_block is made once per process.
  bool all_ok = consumer.try_peek(message).code() == StatusCode::would_block;
  const std::uint64_t before = allocations;
  for (int i = 0; i < 10'000; ++i) {
    const std::size_t bytes = static_cast<std::size_t>(i) * 7919 % producer.max_loan_bytes();
    all_ok &= producer.loan(bytes, slot, base::Deadline::never()).is_ok();
    producer.publish();
    all_ok &= producer.try_loan(8, slot).is_ok();
    producer.publish();
    for (int k = 0; k < 2; ++k) {
      all_ok &= consumer.peek(message, base::Deadline::never()).is_ok();
      consumer.release();
    }
    all_ok &= consumer.try_peek(message).code() == StatusCode::would_block;
  }
  EXPECT_EQ(allocations - before, 0u);
  EXPECT_TRUE(all_ok);
  for (Side* side : {&rig.near(), &rig.far_here()}) {
    EXPECT_EQ(side->waiter().counts().slow_waits, 0u);
    EXPECT_EQ(side->waiter().counts().yields, 0u);
    EXPECT_EQ(side->waiter().counts().sleeps, 0u);
  }
}

std::int64_t cpu_ns(pthread_t thread) {
  clockid_t clock;
  timespec t{};
  pthread_getcpuclockid(thread, &clock);
  clock_gettime(clock, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

TEST(ChannelBudget, ABlockedConsumerUsesLessThanOnePercentOfACore) {
  RigShape shape;
  shape.windows = {};  // what users get
  ChannelRig rig(Transport::inproc, shape);
  rig.far_here();
  std::thread consumer([&] {
    std::span<const std::byte> message;
    EXPECT_TRUE(rig.far_here().consumer().peek(message, Side::soon()));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const std::int64_t begin = cpu_ns(consumer.native_handle());
  const auto from = base::Clock::now();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const std::int64_t used = cpu_ns(consumer.native_handle()) - begin;
  const std::int64_t passed = std::chrono::nanoseconds(base::Clock::now() - from).count();
  std::span<std::byte> slot;
  EXPECT_TRUE(rig.near().producer().try_loan(1, slot));
  rig.near().producer().publish();
  consumer.join();
  EXPECT_LT(used * 100, passed) << used << " ns of " << passed;
}

}  // namespace
}  // namespace slipring::tests
