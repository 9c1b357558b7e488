// Data path of the direct collectives that move blocks. Budget: a small block is copied once into the publication line
// or the box and once out, one line is told. Of a larger one each piece is copied once into a staging slot and once
// out, two lines are told and two per peer awaited for a whole slot of pieces. Out of a heap it is copied once.
//
// Reuse of slots: a rank tells reduced = g + 1 when it has read all of chunk g; so stage(g) needs reduced >= g - 3 of
// every peer. Chunks of the operation before may have been told earlier than they were read (two_phase.cc): in the
// first four chunks stage(g) waits for what two_phase.cc waits for, or for a peer's first word of this operation.
#include "collectives/direct/exchange.h"

#include <algorithm>

#include "base/status.h"
#include "collectives/direct/direct_collectives.h"

namespace slipring::collectives {
namespace {

// What the publication of a staged exchange carries.
struct HeapBlocks {
  std::uint64_t in_heap = 0;  // 1: the sender's blocks are read where they lie
  std::uint64_t offset = 0;   // of the first block
  std::uint64_t distance = 0; // from block to block
  std::uint64_t row_bytes = 0;
  std::uint64_t stride = 0;
};
static_assert(sizeof(HeapBlocks) <= kPublicationBytes);

std::size_t whole_lines(std::size_t bytes) noexcept { return (bytes + 63) / 64 * 64; }

HeapBlocks find_in_heap(const base::Heap* heap, const Exchange& exchange) {
  if (heap == nullptr || exchange.in_place || !(exchange.shared || exchange.uniform)) return {};
  const auto some = std::find_if(exchange.send.begin(), exchange.send.end(), [](const Rows& r) { return r.bytes != 0; });
  if (some == exchange.send.end()) return {};
  const std::byte* const end = exchange.shared ? some->base : exchange.send.back().base;
  if (!heap->contains(some->base, static_cast<std::size_t>(end - some->base) + some->extent())) return {};
  const std::size_t distance = exchange.shared ? 0 : static_cast<std::size_t>(exchange.send[1].base - some->base);
  return {1, heap->offset_of(some->base), distance, some->row_bytes, some->stride};
}

}  // namespace

std::size_t DirectCollectives::piece_of(const Exchange& exchange, int from, int to) const noexcept {
  return exchange.shared ? 0 : static_cast<std::size_t>(to > from ? to - 1 : to);
}

Status DirectCollectives::exchange(const Exchange& exchange) {
  const auto pieces = exchange.shared ? std::size_t{1} : peers_.size();
  if (exchange.largest * pieces <= kPublicationBytes) return small_exchange(exchange, exchange.largest, false);
  if (whole_lines(exchange.largest) * pieces <= group_.shape().box_bytes)
    return small_exchange(exchange, whole_lines(exchange.largest), true);
  return staged_exchange(exchange);
}

/// `step`: distance of the pieces in the line or box.
Status DirectCollectives::small_exchange(const Exchange& exchange, std::size_t step, bool boxed) {
  if (boxed)
    if (Status s = prepare_boxes(); !s) return s;
  if (Status s = enter(exchange.fingerprint); !s) return s;
  publish_small(exchange, step, boxed);
  const Rows& own = exchange.recv[own_index()];
  if (own.bytes != 0) copy_rows(own, exchange.send[own_index()]);
  std::size_t read = 0;
  for (const Peer& peer : peers_) {
    const Rows& to = exchange.recv[static_cast<std::size_t>(peer.rank)];
    if (to.bytes == 0) continue;
    if (Status s = await_published(peer); !s) return s;
    const std::byte* from = boxed ? group_.box(peer.rank, k_ & 1) : peer.control->publications[k_ & 1].payload;
    to.fill(0, to.bytes, from + piece_of(exchange, peer.rank, group_.rank()) * step);
    ++read;
  }
  if (read == peers_.size()) confirmed_ = k_;
  return {};
}

void DirectCollectives::publish_small(const Exchange& exchange, std::size_t step, bool boxed) {
  std::byte line[kPublicationBytes] = {};
  std::byte* const target = boxed ? group_.box(group_.rank(), k_ & 1) : line;
  std::size_t end = 0;
  for (const Peer& peer : peers_) {
    const Rows& block = exchange.send[static_cast<std::size_t>(peer.rank)];
    if (block.bytes == 0) continue;
    const std::size_t at = piece_of(exchange, group_.rank(), peer.rank) * step;
    if (boxed)
      block.hand_over(0, block.bytes, target + at);
    else
      block.for_each(0, block.bytes, [&](const std::byte* memory, std::size_t bytes, std::size_t i) {
        std::memcpy(target + at + i, memory, bytes);
      });
    end = at + block.bytes;
    if (exchange.shared) break;
  }
  publish(line, boxed ? 0 : end);
}

Status DirectCollectives::reduce_scatter(const Exchange& exchange, const ScatterReduction& reduction) {
  const std::size_t pieces = peers_.size();
  const bool in_line = exchange.largest * pieces <= kPublicationBytes;
  const std::size_t step = in_line ? exchange.largest : whole_lines(exchange.largest);
  if (!in_line && step * pieces > group_.shape().box_bytes) return staged_reduce_scatter(exchange, reduction);
  if (!in_line)
    if (Status s = prepare_boxes(); !s) return s;
  if (Status s = enter(exchange.fingerprint); !s) return s;
  publish_small(exchange, step, !in_line);
  for (const Peer& peer : peers_) {
    if (Status s = await_published(peer); !s) return s;
    const std::byte* from = in_line ? peer.control->publications[k_ & 1].payload : group_.box(peer.rank, k_ & 1);
    found_[static_cast<std::size_t>(peer.rank)] = {
        Rows::packed(from + piece_of(exchange, peer.rank, group_.rank()) * step, exchange.largest), 0};
  }
  confirmed_ = k_;
  reduce_range(exchange.send[own_index()], 0, exchange.send[own_index()].bytes, reduction);
  return {};
}

/// Reduces a packed range of the own block with what find_sources found of the peers'.
void DirectCollectives::reduce_range(const Rows& own, std::size_t first, std::size_t bytes, const ScatterReduction& reduction) {
  own.for_each(first, bytes, [&](const std::byte* memory, std::size_t run, std::size_t at) {
    for (const Peer& peer : peers_) {
      const Found& block = found_[static_cast<std::size_t>(peer.rank)];
      sources_[static_cast<std::size_t>(peer.rank)] = block.rows.address(block.first + at);
    }
    sources_[own_index()] = memory;
    reduce_large(static_cast<std::byte*>(reduction.out) + first + at, nullptr, run / reduction.element_bytes, reduction.element_bytes,
                 reduction.kernel, reduction.divisor);
  });
}

std::size_t DirectCollectives::exchange_piece_bytes(const Exchange& exchange) const noexcept {
  const std::size_t chunk = group_.shape().chunk_bytes;
  return exchange.shared ? chunk : std::max<std::size_t>(64, chunk / peers_.size() / 64 * 64);
}

/// Publishes, with the first chunk staged unless the blocks lie in the heap. Returns whether they do.
Result<bool> DirectCollectives::begin_staged(const Exchange& exchange, std::size_t piece) {
  if (peers_.size() * 64 > group_.shape().chunk_bytes)
    return base::error(StatusCode::unsupported, "staging slots of {} bytes are too small for {} ranks; raise direct.chunk_bytes",
                       group_.shape().chunk_bytes, group_.ranks());
  if (Status s = enter(exchange.fingerprint); !s) return s;
  const HeapBlocks blocks = find_in_heap(group_.heaps().own.get(), exchange);
  if (blocks.in_heap == 0)
    if (Status s = stage_pieces(exchange, 0, piece, g_); !s) return s;
  publish(&blocks, sizeof blocks);
  return blocks.in_heap != 0;
}

bool DirectCollectives::sends_anything(const Exchange& exchange) const noexcept {
  return std::any_of(peers_.begin(), peers_.end(),
                     [&](const Peer& p) { return exchange.send[static_cast<std::size_t>(p.rank)].bytes != 0; });
}

/// Stages the pieces [first, first + piece) of every block as chunk g.
Status DirectCollectives::stage_pieces(const Exchange& exchange, std::size_t first, std::size_t piece, std::uint64_t g) {
  if (!sends_anything(exchange)) return {};
  if (Status s = prepare_slots(); !s) return s;
  if (Status s = await_reusable(g); !s) return s;
  std::byte* const slot = group_.slot(group_.rank(), g);
  for (const Peer& peer : peers_) {
    const Rows& block = exchange.send[static_cast<std::size_t>(peer.rank)];
    if (block.bytes <= first) continue;
    std::byte* const to = slot + piece_of(exchange, group_.rank(), peer.rank) * piece;
    share(std::min(piece, block.bytes - first),
          [&](int, std::size_t begin, std::size_t end) { block.hand_over(first + begin, end - begin, to + begin); });
    if (exchange.shared) break;
  }
  tell_chunks(&RankControl::staged, g + 1);
  return {};
}

/// Until no peer reads the slot of chunk g any more; g_ is the operation's first chunk.
Status DirectCollectives::await_reusable(std::uint64_t g) {
  const std::uint64_t j = g - g_;
  const std::uint64_t needed = j <= 2 ? g - 1 : g - std::min<std::uint64_t>(j - 1, 3);
  for (const Peer& peer : peers_) {
    std::uint64_t& seen = seen_reduced_[static_cast<std::size_t>(peer.rank)];
    if (static_cast<std::int64_t>(seen - needed) >= 0) continue;
    if (Status s = await_chunks(&RankControl::reduced, peer.rank, needed); !s) return s;
    seen = needed;
  }
  return {};
}

/// Where `peer` keeps its block for this rank if that is in its heap; a block without address if it stages.
Result<Rows> DirectCollectives::block_in_heap(const Exchange& exchange, int peer, std::size_t bytes) {
  HeapBlocks blocks;
  std::memcpy(&blocks, theirs(peer).payload, sizeof blocks);
  if (blocks.in_heap == 0) return Rows();
  Rows rows{nullptr, bytes, static_cast<std::size_t>(blocks.row_bytes), static_cast<std::size_t>(blocks.stride)};
  if (rows.row_bytes == 0 || (!rows.is_packed() && bytes % rows.row_bytes != 0))
    return base::error(StatusCode::corrupt, "rank {} announces rows of {} bytes for a block of {}", peer, blocks.row_bytes, bytes);
  const std::uint64_t skip = exchange.shared ? 0 : blocks.distance * static_cast<std::uint64_t>(group_.rank());
  Result<std::byte*> at = group_.heaps().all[static_cast<std::size_t>(peer)].at(blocks.offset + skip, rows.extent());
  if (!at) return std::move(at).status();
  rows.base = *at;
  return rows;
}

Status DirectCollectives::staged_exchange(const Exchange& exchange) {
  const std::size_t piece = exchange_piece_bytes(exchange);
  Result<bool> begun = begin_staged(exchange, piece);
  if (!begun) return std::move(begun).status();
  const bool in_heap = *begun, sends = sends_anything(exchange);
  const std::uint64_t start = g_, chunks = (exchange.largest + piece - 1) / piece;
  std::size_t sources = 0;
  for (const Peer& peer : peers_) {
    const auto r = static_cast<std::size_t>(peer.rank);
    found_[r] = Found();
    if (exchange.recv[r].bytes == 0) continue;
    ++sources;
    if (Status s = await_published(peer); !s) return s;
    Result<Rows> block = block_in_heap(exchange, peer.rank, exchange.recv[r].bytes);
    if (!block) return std::move(block).status();
    found_[r].rows = *block;
  }
  if (sources == peers_.size()) confirmed_ = k_;
  // A rank that reads nothing is past every chunk at once, one that stages nothing has staged them all.
  if (sources == 0) tell_chunks(&RankControl::reduced, start + chunks);
  const bool stages = sends && !in_heap;
  if (!stages) tell_chunks(&RankControl::staged, start + chunks);
  if (const Rows& own = exchange.recv[own_index()]; own.bytes != 0 && !exchange.in_place) copy_rows(own, exchange.send[own_index()]);

  for (std::uint64_t j = 0; j < chunks && (stages || sources != 0); ++j) {
    const std::size_t first = static_cast<std::size_t>(j) * piece;
    if (j != 0) fault_.at(k_, j);
    if (stages && j != 0)
      if (Status s = stage_pieces(exchange, first, piece, start + j); !s) return s;
    if (sources == 0) continue;
    for (int i = 1; i < group_.ranks(); ++i) {
      const int r = (group_.rank() + i) % group_.ranks();  // not all ranks read from the same one
      const Rows& to = exchange.recv[static_cast<std::size_t>(r)];
      if (to.bytes <= first) continue;
      if (Status s = take_piece(exchange, to, r, first, std::min(piece, to.bytes - first), start + j, piece); !s) return s;
    }
    tell_chunks(&RankControl::reduced, start + j + 1);
  }
  return end_staged(start + chunks, exchange, in_heap);
}

Status DirectCollectives::take_piece(const Exchange& exchange, const Rows& to, int from, std::size_t first, std::size_t bytes,
                                     std::uint64_t g, std::size_t piece) {
  const Rows& block = found_[static_cast<std::size_t>(from)].rows;
  if (block.base != nullptr) {
    share(bytes, [&](int, std::size_t begin, std::size_t end) {
      block.for_each(first + begin, end - begin,
                     [&](const std::byte* memory, std::size_t run, std::size_t at) { to.fill(first + begin + at, run, memory); });
    });
    return {};
  }
  if (Status s = await_chunks(&RankControl::staged, from, g + 1); !s) return s;
  const std::byte* const slot = group_.slot(from, g) + piece_of(exchange, from, group_.rank()) * piece;
  share(bytes, [&](int, std::size_t begin, std::size_t end) { to.fill(first + begin, end - begin, slot + begin); });
  return {};
}

Status DirectCollectives::staged_reduce_scatter(const Exchange& exchange, const ScatterReduction& reduction) {
  const std::size_t piece = exchange_piece_bytes(exchange);
  Result<bool> begun = begin_staged(exchange, piece);
  if (!begun) return std::move(begun).status();
  const bool in_heap = *begun;
  if (Status s = await_all_published(); !s) return s;
  const std::uint64_t start = g_, chunks = (exchange.largest + piece - 1) / piece;
  if (in_heap) tell_chunks(&RankControl::staged, start + chunks);
  const Rows& own = exchange.send[own_index()];
  for (const Peer& peer : peers_) {
    Result<Rows> block = block_in_heap(exchange, peer.rank, own.bytes);
    if (!block) return std::move(block).status();
    found_[static_cast<std::size_t>(peer.rank)] = {*block, 0, block->base != nullptr};
  }
  for (std::uint64_t j = 0; j < chunks; ++j) {
    const std::size_t first = static_cast<std::size_t>(j) * piece;
    if (j != 0) fault_.at(k_, j);
    if (!in_heap && j != 0)
      if (Status s = stage_pieces(exchange, first, piece, start + j); !s) return s;
    if (own.bytes > first) {
      const std::size_t bytes = std::min(piece, own.bytes - first);
      if (Status s = find_sources(exchange, first, piece, start + j); !s) return s;
      reduce_range(own, first, bytes, reduction);
    }
    tell_chunks(&RankControl::reduced, start + j + 1);
  }
  return end_staged(start + chunks, exchange, in_heap);
}

/// Points found_ of every peer at its contribution to chunk g.
Status DirectCollectives::find_sources(const Exchange& exchange, std::size_t first, std::size_t piece, std::uint64_t g) {
  for (const Peer& peer : peers_) {
    const auto r = static_cast<std::size_t>(peer.rank);
    if (found_[r].in_heap) {
      found_[r].first = first;
      continue;
    }
    if (Status s = await_chunks(&RankControl::staged, peer.rank, g + 1); !s) return s;
    found_[r].rows = Rows::packed(group_.slot(peer.rank, g) + piece_of(exchange, peer.rank, group_.rank()) * piece, piece);
  }
  return {};
}

/// `end`: the chunk after the operation's last.
Status DirectCollectives::end_staged(std::uint64_t end, const Exchange& exchange, bool in_heap) {
  g_ = end;
  if (!in_heap) return {};
  for (const Peer& peer : peers_) {  // they read the caller's buffer
    const auto r = static_cast<std::size_t>(peer.rank);
    if (exchange.send[r].bytes == 0) continue;
    if (Status s = await_chunks(&RankControl::reduced, peer.rank, end); !s) return s;
    seen_reduced_[r] = end;
  }
  return {};
}

}  // namespace slipring::collectives
