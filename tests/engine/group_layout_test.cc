#include "engine/group/group_layout.h"

#include <gtest/gtest.h>

#include <thread>

#include "engine/communicator_impl.h"
#include "transports/shm/shm_channel.h"

namespace slipring::engine {
namespace {

std::size_t memory_of_a_job(const GroupLayout& layout) {
  const auto ranks = static_cast<std::size_t>(layout.direct.ranks);
  const std::size_t rings = (ranks - 1) * static_cast<std::size_t>(layout.rings_per_peer());
  return ranks * (layout.reserved_bytes() + rings * layout.ring.payload_bytes);
}

TEST(GroupLayout, of_two_ranks_takes_less_than_16_mib_even_with_every_ring_in_use) {
  const GroupLayout layout(base::ConfigValues{}, 2);
  EXPECT_LT(memory_of_a_job(layout), std::size_t{16} << 20);
}

TEST(GroupLayout, parts_do_not_overlap_and_begin_at_lines_or_pages) {
  for (const int ranks : {1, 2, 3, 8, 16}) {
    const GroupLayout layout(base::ConfigValues{}, ranks);
    EXPECT_GE(layout.direct_offset(), sizeof(RankHeader) + static_cast<std::size_t>(ranks) * 8);
    std::size_t end = layout.direct_offset() + layout.direct.area_bytes();
    for (int peer = 0; peer < ranks; ++peer)
      for (int ring = 0; ring < layout.rings_per_peer(); ++ring) {
        EXPECT_GE(layout.ring_control_offset(peer, ring), end);
        EXPECT_EQ(layout.ring_control_offset(peer, ring) % 64, 0u);
        end = layout.ring_control_offset(peer, ring) + transports::shm_ring_control_bytes(layout.ring_shape(ring));
      }
    EXPECT_GE(layout.reserved_bytes(), end);
    end = layout.reserved_bytes();
    for (int peer = 0; peer < ranks; ++peer)
      for (int ring = 0; ring < layout.rings_per_peer(); ++ring) {
        EXPECT_EQ(layout.ring_payload_offset(peer, ring), end);
        EXPECT_EQ(end % 4096, 0u);
        end += layout.ring_shape(ring).payload_bytes;
      }
    EXPECT_EQ(layout.total_bytes(), end);
  }
}

// What another process reads while the job runs.
TEST(Counters, lie_in_the_segment_and_count) {
  const std::shared_ptr<Store> store = make_memory_store();
  const auto join = [&](int rank) {
    return CommunicatorImpl::join_at(*store, rank, 2, base::Config(), base::Deadline::after_ms(20000)).value();
  };
  std::thread peer([&] {
    const auto comm = join(1);
    float x[4] = {};
    for (int i = 0; i < 5; ++i) (void)comm->all_reduce(x, x, 4, DType::f32, ReduceOp::sum);
  });
  const auto comm = join(0);
  float x[4] = {};
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(comm->all_reduce(x, x, 4, DType::f32, ReduceOp::sum));
  peer.join();
  const auto view = base::CountersView::open(comm->counter_memory());
  ASSERT_TRUE(view.is_ok());
  EXPECT_EQ(view.value().value(0, *view.value().index_of("operations")), 5u);
  EXPECT_EQ(view.value().value(0, *view.value().index_of("one_shot_ops")), 5u);
  EXPECT_EQ(view.value().value(0, *view.value().index_of("bytes_in")), 80u);
}

TEST(GroupLayout, makes_rings_valid_whatever_the_configuration_says) {
  base::ConfigValues config;
  config.channel_slots = 3;
  config.channel_bytes = 5000;
  const GroupLayout layout(config, 2);
  EXPECT_TRUE(layout.ring.valid());
  EXPECT_EQ(layout.ring.slots, 4u);
  EXPECT_EQ(layout.ring.payload_bytes, 8192u);
}

}  // namespace
}  // namespace slipring::engine
