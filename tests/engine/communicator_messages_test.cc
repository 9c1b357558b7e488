// Point-to-point messages, channels that users open, and what wrong calls yield.
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "slipring/communicator.h"

namespace slipring::tests {
namespace {

std::vector<std::uint8_t> pattern(std::size_t bytes, int seed) {
  std::vector<std::uint8_t> v(bytes);
  for (std::size_t i = 0; i < bytes; ++i) v[i] = static_cast<std::uint8_t>(i * 31 + static_cast<std::size_t>(seed));
  return v;
}

StatusCode code_of(const std::function<void()>& call, std::string* text = nullptr) {
  try {
    call();
  } catch (const Error& e) {
    if (text) *text = e.what();
    return e.code();
  }
  return StatusCode::ok;
}

TEST(SendRecv, every_size_around_every_boundary_both_ways) {
  std::atomic<int> wrong{0};
  run_threads(2, [&](Communicator& comm) {
    const int peer = 1 - comm.rank();
    for (const std::size_t bytes : {0u, 1u, 7u, 39u, 40u, 41u, 47u, 48u, 49u, 63u, 64u, 65u, 4095u, 65471u, 65472u, 65536u, 65537u, 131072u, 3000001u}) {
      const auto sent = pattern(bytes, comm.rank());
      std::vector<std::uint8_t> got(bytes + 1, 0xee);
      if (comm.rank() == 0) {
        comm.send(sent.data(), bytes, peer);
        comm.recv(got.data(), bytes, peer);
      } else {
        comm.recv(got.data(), bytes, peer);
        comm.send(sent.data(), bytes, peer);
      }
      got.pop_back();
      wrong += got != pattern(bytes, peer);
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(SendRecv, different_sizes_are_a_mismatch_that_shows_both) {
  std::string text;
  StatusCode code = StatusCode::ok;
  try {
    run_threads(2, [&](Communicator& comm) {
      std::uint8_t b[64] = {};
      if (comm.rank() == 0) {
        comm.send(b, 24, 1);
        comm.barrier();
      } else {
        comm.recv(b, 32, 0);
      }
    });
  } catch (const Error& e) {
    code = e.code();
    text = e.what();
  }
  EXPECT_EQ(code, StatusCode::mismatch);
  EXPECT_NE(text.find("24 bytes"), std::string::npos) << text;
  EXPECT_NE(text.find("32 bytes"), std::string::npos) << text;
}

TEST(Channel, carries_loans_and_copied_messages_between_threads_of_the_users_own) {
  std::atomic<int> wrong{0};
  run_threads(2, [&](Communicator& comm) {
    constexpr int kMessages = 3000;
    if (comm.rank() == 0) {
      Producer p = comm.open_producer(1);
      std::thread([&] {
        for (int i = 0; i < kMessages; ++i) {
          const std::size_t bytes = static_cast<std::size_t>(i * 37 % 5000);
          const auto slot = p.loan(bytes);
          for (std::size_t k = 0; k < bytes; ++k) slot[k] = static_cast<std::byte>(i + static_cast<int>(k));
          p.publish();
        }
        const auto big = pattern(2000003, 5);
        p.write(big.data(), big.size());
        p.close();
      }).join();
    } else {
      Consumer c = comm.open_consumer(0);
      for (int i = 0; i < kMessages; ++i) {
        const auto m = c.peek();
        wrong += m.size() != static_cast<std::size_t>(i * 37 % 5000);
        for (std::size_t k = 0; k < m.size(); ++k) wrong += m[k] != static_cast<std::byte>(i + static_cast<int>(k));
        c.release();
      }
      std::vector<std::uint8_t> big(2000003);
      c.read(big.data(), big.size());
      wrong += big != pattern(2000003, 5);
      wrong += code_of([&] { c.peek(); }) != StatusCode::closed;
    }
    comm.barrier();
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Channel, calls_out_of_order_are_errors_not_damage) {
  std::atomic<int> wrong{0};
  run_threads(2, [&](Communicator& comm) {
    if (comm.rank() == 0) {
      Producer p = comm.open_producer(1);
      wrong += code_of([&] { p.publish(); }) != StatusCode::invalid_argument;
      wrong += code_of([&] { p.loan(p.max_loan_bytes() + 1); }) != StatusCode::invalid_argument;
      Producer moved = std::move(p);
      wrong += code_of([&] { p.loan(1); }) != StatusCode::invalid_argument;
      moved.loan(1);
      moved.publish();
      comm.barrier();
    } else {
      Consumer c = comm.open_consumer(0);
      wrong += code_of([&] { c.release(); }) != StatusCode::invalid_argument;
      c.peek();
      c.release();
      wrong += code_of([&] { c.release(); }) != StatusCode::invalid_argument;
      comm.barrier();
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Channel, loans_and_copies_do_not_mix_and_nothing_passes_after_close) {
  std::atomic<int> wrong{0};
  run_threads(2, [&](Communicator& comm) {
    char b[10] = {};
    if (comm.rank() == 0) {
      Producer p = comm.open_producer(1);
      wrong += code_of([&] { p.write(nullptr, 10); }) != StatusCode::invalid_argument;
      p.loan(4);
      wrong += code_of([&] { p.write(b, 10); }) != StatusCode::invalid_argument;
      p.publish();
      p.close();
      wrong += code_of([&] { p.loan(4); }) != StatusCode::closed;
      wrong += code_of([&] { p.write(b, 10); }) != StatusCode::closed;
      comm.barrier();
    } else {
      Consumer c = comm.open_consumer(0);
      wrong += c.peek().size() != 4;
      wrong += code_of([&] { c.read(b, 10); }) != StatusCode::invalid_argument;
      c.release();
      c.close();
      wrong += code_of([&] { c.peek(); }) != StatusCode::closed;
      comm.barrier();
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Channel, two_producers_that_open_to_each_other_are_told) {
  std::atomic<int> wrong{0};
  run_threads(2, [&](Communicator& comm) {
    std::string text;
    wrong += code_of([&] { comm.open_producer(1 - comm.rank()); }, &text) != StatusCode::mismatch;
    wrong += text.find("open_consumer") == std::string::npos;
  });
  EXPECT_EQ(wrong, 0);
}

TEST(BadArguments, are_clear_errors_and_leave_the_communicator_usable) {
  std::atomic<int> wrong{0};
  run_threads(2, [&](Communicator& comm) {
    float x[16] = {};
    const auto bad = [&](const std::function<void()>& call) { wrong += code_of(call) != StatusCode::invalid_argument; };
    bad([&] { comm.all_reduce(nullptr, x, 4, DType::f32, ReduceOp::sum); });
    bad([&] { comm.all_reduce(x, nullptr, 4, DType::f32, ReduceOp::sum); });
    bad([&] { comm.all_reduce(x, x + 1, 4, DType::f32, ReduceOp::sum); });
    bad([&] { comm.all_reduce(x, x, static_cast<std::size_t>(-1), DType::f32, ReduceOp::sum); });
    bad([&] { comm.all_reduce(x, x, 4, static_cast<DType>(99), ReduceOp::sum); });
    bad([&] { comm.all_reduce(x, x, 4, DType::f32, static_cast<ReduceOp>(99)); });
    bad([&] { comm.broadcast(x, 4, DType::f32, 2); });
    bad([&] { comm.broadcast(x, 4, DType::f32, -1); });
    bad([&] { comm.send(x, 4, 2); });
    bad([&] { comm.send(x, 4, comm.rank()); });
    bad([&] { comm.recv(nullptr, 4, 1 - comm.rank()); });
    bad([&] { comm.explain("all_the_things", 4); });
    x[0] = 1;
    comm.all_reduce(std::span<float>(x), ReduceOp::sum);
    wrong += x[0] != 2;
    // Nothing to do is not an error, not even without a buffer.
    comm.all_reduce(nullptr, nullptr, 0, DType::f32, ReduceOp::sum);
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Mismatch, every_rank_gets_an_error_that_shows_both_sides) {
  struct Case {
    const char* name;
    std::function<void(Communicator&)> one, other;
    const char *shows_one, *shows_other;
  };
  static float x[4096];
  const Case cases[] = {
      {"count", [](Communicator& c) { std::vector<float> b(8); c.all_reduce(std::span(b), ReduceOp::sum); },
       [](Communicator& c) { std::vector<float> b(9); c.all_reduce(std::span(b), ReduceOp::sum); }, "of 8 f32", "of 9 f32"},
      {"type", [](Communicator& c) { std::vector<float> b(8); c.all_reduce(std::span(b), ReduceOp::sum); },
       [](Communicator& c) { std::vector<std::int32_t> b(8); c.all_reduce(std::span(b), ReduceOp::sum); }, "f32", "i32"},
      {"operator", [](Communicator& c) { std::vector<float> b(3000); c.all_reduce(std::span(b), ReduceOp::sum); },
       [](Communicator& c) { std::vector<float> b(3000); c.all_reduce(std::span(b), ReduceOp::max); }, "sum", "max"},
      {"operation", [](Communicator& c) { c.barrier(); },
       [](Communicator& c) { std::vector<float> b(8); c.all_reduce(std::span(b), ReduceOp::sum); }, "barrier", "all_reduce"},
      {"path", [](Communicator& c) { std::vector<float> b(8); c.all_reduce(std::span(b), ReduceOp::sum); },
       [](Communicator& c) { std::vector<float> b(300000); c.all_reduce(std::span(b), ReduceOp::sum); }, "of 8 f32", "of 300000 f32"},
      {"root", [](Communicator& c) { c.broadcast(x, 4, DType::f32, 0); c.barrier(); },
       [](Communicator& c) { std::vector<float> b(4); c.broadcast(b.data(), 4, DType::f32, 1); c.barrier(); }, "root 0", "root 1"},
  };
  for (const Case& c : cases) {
    std::vector<std::string> texts(3);
    std::vector<StatusCode> codes(3, StatusCode::ok);
    run_threads(3, [&](Communicator& comm) {
      const auto r = static_cast<std::size_t>(comm.rank());
      codes[r] = code_of([&] { comm.rank() == 1 ? c.other(comm) : c.one(comm); }, &texts[r]);
      // The communicator stays poisoned, with the same story.
      if (code_of([&] { comm.barrier(); }) != codes[r]) texts[r] = "not poisoned";
    });
    for (std::size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(codes[r], StatusCode::mismatch) << c.name << " rank " << r << ": " << texts[r];
      EXPECT_NE(texts[r].find(c.shows_one), std::string::npos) << c.name << ": " << texts[r];
      EXPECT_NE(texts[r].find(c.shows_other), std::string::npos) << c.name << ": " << texts[r];
    }
  }
}

TEST(Abort, wakes_everybody_also_from_another_thread_and_twice) {
  std::atomic<int> wrong{0};
  run_threads(3, [&](Communicator& comm) {
    if (comm.rank() == 2) {
      std::thread([&] {
        comm.abort("the operator lost patience");
        comm.abort("and again");
      }).join();
    }
    std::string text;
    if (comm.rank() != 2) wrong += code_of([&] { comm.barrier(); }, &text) != StatusCode::aborted;
    if (comm.rank() != 2) wrong += text.find("lost patience") == std::string::npos;
    wrong += code_of([&] { comm.barrier(); }) != StatusCode::aborted;
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Close, is_idempotent_and_later_calls_and_peers_get_an_error) {
  std::atomic<int> wrong{0};
  run_threads(2, [&](Communicator& comm) {
    comm.barrier();
    if (comm.rank() == 0) {
      comm.close();
      comm.close();
      wrong += code_of([&] { comm.barrier(); }) != StatusCode::closed;
    } else {
      std::string text;
      wrong += code_of([&] { comm.barrier(); }, &text) != StatusCode::closed;
      wrong += text.find("rank 0 has closed") == std::string::npos;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Close, wakes_who_waits_for_messages_and_keeps_what_was_sent) {
  std::atomic<int> wrong{0};
  run_threads(3, [&](Communicator& comm) {
    char b[8] = "1234567";
    std::string text;
    if (comm.rank() == 0) {
      comm.send(b, 8, 1);
      comm.close();
    } else if (comm.rank() == 1) {
      comm.recv(b, 8, 0);
      wrong += code_of([&] { comm.recv(b, 8, 0); }, &text) != StatusCode::closed;
      wrong += text.find("rank 1 in recv of 8 bytes from rank 0") == std::string::npos;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, an_exception_in_one_rank_ends_the_others_and_reaches_the_caller) {
  try {
    run_threads(3, [](Communicator& comm) {
      if (comm.rank() == 1) throw std::runtime_error("rank 1 cannot go on");
      comm.barrier();
    });
    FAIL() << "nothing was thrown";
  } catch (const std::exception& e) {
    EXPECT_NE(std::string(e.what()).find("rank 1 cannot go on"), std::string::npos) << e.what();
  }
}

TEST(Timeout, names_who_was_awaited_in_which_operation) {
  std::string text;
  StatusCode code = StatusCode::ok;
  run_threads(2, [&](Communicator& comm) {
    if (comm.rank() == 0) {
      code = code_of([&] { comm.barrier(); }, &text);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(600));
    }
  }, {.config = {{"op.timeout_ms", "200"}}});
  EXPECT_EQ(code, StatusCode::timeout);
  EXPECT_NE(text.find("rank 0 waited for rank 1 in operation 1, barrier"), std::string::npos) << text;
}

TEST(Explain, says_what_would_be_used_and_why) {
  run_threads(2, [](Communicator& comm) {
    const Selection small = comm.explain("all_reduce", 1024), large = comm.explain("all_reduce", 64 << 20);
    if (comm.rank() != 0) return;
    EXPECT_EQ(small.algorithm, "one_shot");
    EXPECT_EQ(large.algorithm, "two_phase");
    EXPECT_EQ(small.transport, "inproc");
    EXPECT_NE(large.reason.find("exceed"), std::string::npos);
  });
}

TEST(GroupOfOne, short_circuits) {
  run_threads(1, [](Communicator& comm) {
    float in[3] = {1, 2, 3}, out[3] = {};
    comm.all_reduce(in, out, 3, DType::f32, ReduceOp::avg);
    EXPECT_EQ(out[2], 3);
    comm.broadcast(in, 3, DType::f32, 0);
    comm.barrier();
    EXPECT_EQ(comm.explain("all_reduce", 12).algorithm, "none");
  });
}

TEST(Empty, communicator_refuses_calls) {
  Communicator none;
  EXPECT_EQ(none.rank(), -1);
  EXPECT_EQ(code_of([&] { none.barrier(); }), StatusCode::invalid_argument);
  none.close();
  none.abort("nothing");
}

}  // namespace
}  // namespace slipring::tests
