// Control path: how a SharedGroup forms. Two rounds through the store: "here is my segment", "I have mapped yours".
#include <cstring>
#include <filesystem>

#include "base/asymmetric_fence.h"
#include "base/cpuset.h"
#include "base/log.h"
#include "base/status.h"
#include "engine/group/group_hello.h"
#include "engine/group/shared_group.h"
#include "engine/store/gather_all.h"

namespace slipring::engine {
namespace {

using base::error;
using base::SegmentBacking;

// What a peer leaves in a segment to prove that it maps the same memory.
std::uint64_t mark_of(int rank) noexcept { return kGroupMagic ^ (static_cast<std::uint64_t>(rank) + 1) << 8; }

std::string settings_text(const base::ConfigValues& c, std::uint64_t tuning_digest) {
  return fmt::format("channel.slots {}, channel.bytes {}, direct.one_shot_max_bytes {}, direct.chunk_bytes {}, plan.chunk_bytes {}, "
                     "plan.rings {}, algorithms {} {} {} {} {} {} {} {}, tuning file {:x}, heap.max_bytes {}, group.max_bytes {}, "
                     "topology.domains {}, segment.backing {}, test.counter_start {}",
                     c.channel_slots, c.channel_bytes, c.direct_one_shot_max_bytes, c.direct_chunk_bytes, c.plan_chunk_bytes,
                     c.plan_rings, c.all_reduce_algorithm, c.reduce_algorithm, c.broadcast_algorithm, c.all_gather_algorithm,
                     c.reduce_scatter_algorithm, c.gather_algorithm, c.scatter_algorithm, c.all_to_all_algorithm, tuning_digest,
                     c.heap_max_bytes, c.group_max_bytes, c.topology_domains, c.segment_backing, c.test_counter_start);
}

// Two domains with two ranks in one of them.
constexpr int kFewestRanksForDomains = 3;

const char* backing_name(SegmentBacking backing) noexcept { return backing == SegmentBacking::memfd ? "memfd" : "shm"; }

std::string own_pid_namespace() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string();
}

base::HugePages huge_pages(const base::ConfigValues& c) {
  if (c.segment_huge_pages == "require") return base::HugePages::require;
  return c.segment_huge_pages == "try" ? base::HugePages::attempt : base::HugePages::off;
}

base::WaitWindows wait_windows(const base::ConfigValues& c, bool oversubscribed) {
  constexpr std::int64_t kSpinNs = 100'000, kYieldNs = 1'000'000;
  base::WaitWindows w;
  w.spin_ns = c.wait_spin_ns >= 0 ? c.wait_spin_ns : oversubscribed ? 0 : kSpinNs;
  w.yield_ns = c.wait_yield_ns >= 0 ? c.wait_yield_ns : kYieldNs;
  w.liveness_ns = c.liveness_period_ms * 1'000'000;
  w.timeout_ns = c.op_timeout_ms * 1'000'000;
  return w;
}

std::shared_ptr<base::LentThreads> lent_threads(const base::ConfigValues& c) {
  if (c.copy_threads == 0) return nullptr;
  if (base::usable_cpus().count() == 1) {
    SLIPRING_LOG(info, startup, "copy.threads {} has no effect: this rank may run on one CPU only", c.copy_threads);
    return nullptr;
  }
  std::shared_ptr<base::LentThreads> lent = base::LentThreads::start(static_cast<int>(c.copy_threads));
  if (const int got = lent ? lent->parts() - 1 : 0; got != c.copy_threads)
    SLIPRING_LOG(warn, startup, "copy.threads is {}, but the system gave {}", c.copy_threads, got);
  return lent;
}

}  // namespace

struct SharedGroup::Former {
  Former(Store& s, std::string_view group_name, int own_rank, int size, const base::ConfigValues& c, const base::Deadline& d)
      : store(s), name(group_name), rank(own_rank), ranks(size), config(c), deadline(d) {}

  Store& store;
  std::string name;
  int rank;
  int ranks;
  const base::ConfigValues& config;
  const base::Deadline& deadline;
  GroupLayout layout{config, ranks};
  std::shared_ptr<Job> job = std::make_shared<Job>();
  std::vector<GroupMember> members;
  std::shared_ptr<base::Segment> segment;
  std::shared_ptr<base::Segment> arena;

  Status make_segment(SegmentBacking backing) {
    auto made = base::Segment::create({.bytes = layout.total_bytes(), .reserve_bytes = layout.reserved_bytes(),
                                       .backing = backing, .huge_pages = huge_pages(config),
                                       .tag = fmt::format("{} rank {}", name, rank)});
    if (!made) return std::move(made).status();
    segment = *made;
    if (!segment->note().empty()) SLIPRING_LOG(warn, segment, "{}", segment->note());
    // The hot path never meets a fresh page: control lines, boxes and slots are mapped now.
    if (Status s = segment->prefault(0, layout.reserved_bytes()); !s) return s;
    return init_rank_memory(segment->data(), layout, rank);
  }

  Status make_heap(SegmentBacking backing) {
    if (config.heap_max_bytes == 0) return {};
    auto made = base::Heap::create({.max_bytes = static_cast<std::size_t>(config.heap_max_bytes), .backing = backing,
                                    .huge_pages = huge_pages(config), .tag = fmt::format("heap of rank {}", rank)});
    if (!made) return std::move(made).status();
    job->heaps.own = *made;
    return {};
  }

  Status make_arena(SegmentBacking backing) {
    if (config.group_max_bytes == 0) return {};
    auto made = base::Segment::create({.bytes = static_cast<std::size_t>(config.group_max_bytes), .reserve_bytes = 0, .backing = backing,
                                       .tag = fmt::format("groups of rank {}", rank)});
    if (!made) return std::move(made).status();
    arena = *made;
    job->arena = std::make_unique<GroupArena>(arena);
    return {};
  }

  Result<Domains> own_domains(std::span<const int> cpus) const {
    if (config.topology_domains == "none" || ranks < kFewestRanksForDomains) return Domains();
    if (config.topology_domains == "auto") return found_domains(cpus);
    auto sizes = parse_domain_sizes(config.topology_domains);
    if (!sizes) return std::move(sizes).status();
    return declared_domains(*sizes, rank);
  }

  GroupHello hello(SegmentBacking backing) {
    GroupHello h;
    Status s = make_segment(backing);
    if (s.is_ok()) s = make_heap(backing);
    if (s.is_ok()) s = make_arena(backing);
    if (auto tuning = collectives::TuningTable::load(config.tuning_file))
      job->tuning = std::move(*tuning);
    else if (s.is_ok())
      s = std::move(tuning).status();
    h.cpus = base::usable_cpus().cpus;
    if (auto domains = own_domains(h.cpus))
      h.domains = std::move(*domains);
    else if (s.is_ok())
      s = std::move(domains).status();
    if (!s) {
      h.error = s.to_string();
      return h;
    }
    h.settings = settings_text(config, job->tuning->digest());
    h.process = base::this_process();
    h.pid_namespace = own_pid_namespace();
    h.membarrier = base::register_membarrier();
    h.segment = segment->address();
    if (job->heaps.own) h.heap = job->heaps.own->address();
    if (arena) h.arena = arena->address();
    return h;
  }

  Result<std::vector<GroupHello>> exchange(std::string_view round, const GroupHello& own) {
    auto texts = gather_all(store, fmt::format("{}/hello/{}", name, round), rank, ranks, own.encode(), deadline);
    if (!texts) return std::move(texts).status();
    if (!own.error.empty()) return error(StatusCode::unavailable, "this rank cannot start: {}", own.error);
    std::vector<GroupHello> hellos;
    for (int r = 0; r < ranks; ++r) {
      auto h = GroupHello::decode((*texts)[static_cast<std::size_t>(r)]);
      if (!h) return std::move(h).status().with(fmt::format("rank {}", r));
      if (!h->error.empty()) return error(StatusCode::unavailable, "rank {} cannot start: {}", r, h->error);
      if (h->settings != own.settings)
        return error(StatusCode::mismatch, "ranks are configured differently: rank {} has {}; rank {} has {}", rank,
                     own.settings, r, h->settings);
      hellos.push_back(std::move(*h));
    }
    return hellos;
  }

  Status map_peer(int peer, const GroupHello& h) {
    auto mapped = base::Segment::attach(h.segment, deadline);
    if (!mapped) return std::move(mapped).status().with(fmt::format("segment of rank {}", peer));
    const auto* header = reinterpret_cast<const RankHeader*>((*mapped)->data());
    if ((*mapped)->size() < layout.total_bytes() || header->magic != kGroupMagic || header->version != kGroupVersion ||
        header->ranks != static_cast<std::uint32_t>(ranks) || header->rank != static_cast<std::uint32_t>(peer))
      return error(StatusCode::corrupt, "the segment of rank {} is not one of this group; all ranks must run the same version",
                   peer);
    marks_in((*mapped)->data())[rank].store(mark_of(rank), std::memory_order_relaxed);  // relaxed: the store orders it
    members.push_back({.job_rank = peer, .memory = (*mapped)->data(), .segment = *mapped});
    JobMember member{.process = h.process,
                     .liveness = h.pid_namespace == own_pid_namespace() ? base::PeerProcess::open(h.process) : nullptr,
                     .arena = nullptr, .domains = h.domains};
    if (!h.arena.empty()) {
      auto peer_arena = base::Segment::attach(h.arena, deadline);
      if (!peer_arena) return std::move(peer_arena).status().with(fmt::format("memory for groups of rank {}", peer));
      member.arena = *peer_arena;
    }
    job->members.push_back(std::move(member));
    if (h.heap.empty()) return {};
    auto view = base::HeapView::attach(h.heap, deadline);
    if (!view) return std::move(view).status().with(fmt::format("heap of rank {}", peer));
    job->heaps.all.push_back(*view);
    return {};
  }

  Status check_marks() const {
    for (int r = 0; r < ranks; ++r)
      if (marks_in(segment->data())[r].load(std::memory_order_relaxed) != mark_of(r))
        return error(StatusCode::unavailable, "rank {} mapped something else than the segment of rank {}; the ranks do not "
                     "share memory", r, rank);
    return {};
  }

  /// Empty, or what kept some rank from mapping another one's segment; the same on all ranks.
  Result<std::string> agree_mapped(std::string_view round, const Status& own) {
    auto answers = gather_all(store, fmt::format("{}/mapped/{}", name, round), rank, ranks, own.is_ok() ? "" : own.to_string(),
                              deadline);
    if (!answers) return std::move(answers).status();
    for (int r = 0; r < ranks; ++r)
      if (const std::string& text = (*answers)[static_cast<std::size_t>(r)]; !text.empty())
        return fmt::format("rank {}: {}", r, text);
    return std::string();
  }
};

Result<std::shared_ptr<SharedGroup>> SharedGroup::form(Store& store, std::string_view name, int rank, int ranks,
                                                       const base::ConfigValues& config, const base::Deadline& deadline) {
  std::vector<SegmentBacking> backings;
  if (config.segment_backing != "shm") backings.push_back(SegmentBacking::memfd);
  if (config.segment_backing != "memfd") backings.push_back(SegmentBacking::shm);
  Status failure;
  for (const SegmentBacking& backing : backings) {
    Former former(store, name, rank, ranks, config, deadline);
    const std::string round = std::to_string(&backing - backings.data());
    auto hellos = former.exchange(round, former.hello(backing));
    if (!hellos) return std::move(hellos).status();
    Status mapped;
    for (int r = 0; r < ranks && mapped.is_ok(); ++r)
      mapped = former.map_peer(r, (*hellos)[static_cast<std::size_t>(r)]);
    Result<std::string> obstacle = former.agree_mapped(round, mapped);
    if (!obstacle) return std::move(obstacle).status();
    former.segment->seal_attach();
    if (former.job->heaps.own) former.job->heaps.own->seal_attach();
    if (former.arena) former.arena->seal_attach();
    if (!obstacle->empty()) {
      SLIPRING_LOG(info, startup, "group {}: {} segments do not reach all ranks: {}", name, backing_name(backing), *obstacle);
      failure = error(StatusCode::unavailable, "{}", *obstacle);
      continue;
    }
    if (Status s = former.check_marks(); !s) return s;
    bool all_registered = true;
    for (const GroupHello& h : *hellos) all_registered = all_registered && h.membarrier;
    base::agree_on_membarrier(all_registered);
    const bool oversubscribed = ranks_share_cpus(*hellos);
    SLIPRING_LOG(info, startup, "group {}: rank {} of {} on this node, segments {}{}", name, rank, ranks, backing_name(backing),
                 oversubscribed ? ", ranks share CPUs" : "");
    former.job->rank = rank;
    former.job->threads = lent_threads(config);
    former.job->oversubscribed = oversubscribed;
    former.job->windows = wait_windows(config, oversubscribed);
    return std::shared_ptr<SharedGroup>(new SharedGroup(std::move(former.job), rank, former.layout, std::move(former.members)));
  }
  return std::move(failure).with("the ranks do not share memory; start them on one host, in one IPC and PID namespace or with a common /dev/shm");
}

}  // namespace slipring::engine
