// Data path of the two-phase all_reduce. Budget per chunk and rank: what peers will read is copied once into the
// staging slot, the own block is reduced straight into the output (and into the slot), the rest is copied out of
// the peers' slots; two lines are told and two per peer awaited. With heap buffers nothing is staged.
//
// Reuse of slots without acknowledgements: the loop is stage(g), reduce(g), copy_out(g - 1). A rank tells reduced =
// g + 1 after reduce(g), so a peer whose reduced count is at least g - 1 has finished reduce(g - 2) and with it
// copy_out(g - 4), the last use of the slot that stage(g) fills. In the loop this is known already, from the
// wait in copy_out(g - 2); seen_reduced_ saves the look.
#include <algorithm>
#include <cstring>

#include "base/copy.h"
#include "collectives/direct/direct_collectives.h"

namespace slipring::collectives {
namespace {

// What a publication of a two-phase operation carries.
struct HeapBuffers {
  std::uint64_t in_heap;  // 1 if both buffers lie in the rank's heap
  std::uint64_t in_offset;
  std::uint64_t out_offset;
};
static_assert(sizeof(HeapBuffers) <= kPublicationBytes);

// Piece of a block that stays in the first-level caches while it is reduced and handed to every peer.
constexpr std::size_t kHeapPieceBytes = 64 * 1024;

}  // namespace

DirectCollectives::Block DirectCollectives::block_of(int rank, int ranks, std::size_t count,
                                                     std::size_t element_bytes) noexcept {
  const std::size_t line = 64 / element_bytes;  // blocks begin at cache lines
  const std::size_t n = static_cast<std::size_t>(ranks);
  const std::size_t per = ((count + n - 1) / n + line - 1) / line * line;
  const std::size_t begin = std::min(count, per * static_cast<std::size_t>(rank));
  return {begin, std::min(count, begin + per) - begin};
}

Status DirectCollectives::all_reduce_two_phase(const ReduceRequest& request) {
  if (Status s = enter(request.fingerprint); !s) return s;
  HeapBuffers buffers{};
  if (const base::Heap* heap = group_.heaps().own.get()) {
    const std::size_t bytes = request.count * request.element_bytes;
    if (heap->contains(request.in, bytes) && (!gets_result(request) || heap->contains(request.out, bytes)))
      buffers = {1, heap->offset_of(request.in), gets_result(request) ? heap->offset_of(request.out) : 0};
  }
  if (buffers.in_heap == 0) {
    // Stage before publishing: peers then find the first chunk ready.
    const std::size_t chunk = group_.shape().chunk_bytes / request.element_bytes;
    if (Status s = stage_chunk(request, 0, std::min(chunk, request.count), g_); !s) return s;
  }
  publish(&buffers, sizeof buffers);
  if (Status s = await_all_published(); !s) return s;
  if (buffers.in_heap != 0 && all_in_heaps(k_ & 1)) return heap_two_phase(request);
  if (buffers.in_heap != 0) {
    const std::size_t chunk = group_.shape().chunk_bytes / request.element_bytes;
    if (Status s = stage_chunk(request, 0, std::min(chunk, request.count), g_); !s) return s;
  }
  return staged_two_phase(request);
}

Status DirectCollectives::staged_two_phase(const ReduceRequest& request) {
  const std::size_t chunk = group_.shape().chunk_bytes / request.element_bytes;
  std::size_t previous = 0;  // first element of the chunk that is to be copied out
  for (std::size_t first = 0; first < request.count; first += chunk) {
    const std::size_t count = std::min(chunk, request.count - first);
    if (first != 0) {
      fault_.at(k_, first / chunk);
      if (Status s = stage_chunk(request, first, count, g_); !s) return s;
    }
    if (Status s = reduce_chunk(request, first, count, g_); !s) return s;
    if (first != 0)
      if (Status s = copy_out_chunk(request, previous, chunk, g_ - 1); !s) return s;
    previous = first;
    ++g_;
  }
  if (request.count == 0) return {};
  return copy_out_chunk(request, previous, request.count - previous, g_ - 1);
}

Status DirectCollectives::stage_chunk(const ReduceRequest& request, std::size_t first, std::size_t count,
                                      std::uint64_t g) {
  if (count == 0) return {};
  if (Status s = prepare_slots(); !s) return s;
  for (int r = 0; r < group_.ranks(); ++r) {
    if (r == group_.rank() || static_cast<std::int64_t>(seen_reduced_[r] - (g - 1)) >= 0) continue;
    if (Status s = await_chunks(&RankControl::reduced, r, g - 1); !s) return s;
    seen_reduced_[r] = g - 1;
  }
  // Everything but the own block, which no peer reads before it is reduced.
  const Block own = block_of(group_.rank(), group_.ranks(), count, request.element_bytes);
  std::byte* slot = group_.slot(group_.rank(), g);
  const std::byte* in = static_cast<const std::byte*>(request.in) + first * request.element_bytes;
  const std::size_t head = own.offset * request.element_bytes;
  const std::size_t tail = (own.offset + own.count) * request.element_bytes;
  if (head != 0) hand_over(slot, in, head);
  if (tail != count * request.element_bytes) hand_over(slot + tail, in + tail, count * request.element_bytes - tail);
  tell_chunks(&RankControl::staged, g + 1);
  return {};
}

Status DirectCollectives::reduce_chunk(const ReduceRequest& request, std::size_t first, std::size_t count,
                                       std::uint64_t g) {
  const Block own = block_of(group_.rank(), group_.ranks(), count, request.element_bytes);
  const std::size_t offset = own.offset * request.element_bytes;
  if (own.count != 0) {
    for (int r = 0; r < group_.ranks(); ++r) {
      if (r == group_.rank()) {
        sources_[r] = static_cast<const std::byte*>(request.in) + first * request.element_bytes + offset;
        continue;
      }
      if (Status s = await_chunks(&RankControl::staged, r, g + 1); !s) return s;
      sources_[r] = group_.slot(r, g) + offset;
    }
    std::byte* const slot = group_.slot(group_.rank(), g) + offset;
    const bool keep = gets_result(request), pass_on = request.root != group_.rank();
    std::byte* const out = keep ? static_cast<std::byte*>(request.out) + first * request.element_bytes + offset : slot;
    reduce_large(out, keep && pass_on ? slot : nullptr, own.count, request.element_bytes, request.kernel, request.divisor);
  }
  tell_chunks(&RankControl::reduced, g + 1);
  return {};
}

Status DirectCollectives::copy_out_chunk(const ReduceRequest& request, std::size_t first, std::size_t count,
                                         std::uint64_t g) {
  if (!gets_result(request)) return {};
  for (int i = 1; i < group_.ranks(); ++i) {
    // Begin with the next rank, so that the ranks do not all read from the same one.
    const int r = (group_.rank() + i) % group_.ranks();
    if (Status s = await_chunks(&RankControl::reduced, r, g + 1); !s) return s;
    seen_reduced_[r] = g + 1;
    const Block block = block_of(r, group_.ranks(), count, request.element_bytes);
    if (block.count == 0) continue;
    const std::size_t offset = block.offset * request.element_bytes;
    std::byte* const out = static_cast<std::byte*>(request.out) + first * request.element_bytes + offset;
    const std::byte* const slot = group_.slot(r, g) + offset;
    share(block.count * request.element_bytes,
          [=](int, std::size_t begin, std::size_t end) { std::memcpy(out + begin, slot + begin, end - begin); });
  }
  return {};
}

bool DirectCollectives::all_in_heaps(unsigned parity) const noexcept {
  for (int r = 0; r < group_.ranks(); ++r) {
    HeapBuffers b;
    std::memcpy(&b, group_.control(r).publications[parity].payload, sizeof b);
    if (b.in_heap == 0) return false;
  }
  return true;
}

// Each rank reduces its block out of all inputs and stores the result into all outputs: two synchronisations,
// no copy. In place too: nobody but this rank reads block `rank` of any input.
Status DirectCollectives::heap_two_phase(const ReduceRequest& request) {
  const int n = group_.ranks();
  const std::size_t bytes = request.count * request.element_bytes;
  for (int r = 0; r < n; ++r) {
    HeapBuffers b;
    std::memcpy(&b, theirs(r).payload, sizeof b);
    const base::HeapView& heap = group_.heaps().all[r];
    Result<std::byte*> in = heap.at(b.in_offset, bytes);
    Result<std::byte*> out = request.root < 0 || request.root == r ? heap.at(b.out_offset, bytes) : in;
    if (!in) return std::move(in).status();
    if (!out) return std::move(out).status();
    inputs_[r] = *in;
    outputs_[r] = *out;
  }
  const Block own = block_of(group_.rank(), n, request.count, request.element_bytes);
  // Each lent thread gets a piece that stays in its own caches.
  const std::size_t parts = group_.threads() == nullptr ? 1 : static_cast<std::size_t>(group_.threads()->parts());
  const std::size_t piece = parts * kHeapPieceBytes / request.element_bytes;
  for (std::size_t done = 0; done < own.count; done += piece) {
    fault_.at(k_, done / piece);
    const std::size_t count = std::min(piece, own.count - done);
    const std::size_t offset = (own.offset + done) * request.element_bytes;
    const std::size_t piece_bytes = count * request.element_bytes;
    for (int r = 0; r < n; ++r) sources_[r] = inputs_[r] + offset;
    if (request.root >= 0) {
      reduce_large(outputs_[request.root] + offset, nullptr, count, request.element_bytes, request.kernel, request.divisor);
      continue;
    }
    const int next = (group_.rank() + 1) % n;
    std::byte* result = outputs_[group_.rank()] + offset;
    reduce_large(result, outputs_[next] + offset, count, request.element_bytes, request.kernel, request.divisor);
    for (int i = 2; i < n; ++i) hand_over(outputs_[(group_.rank() + i) % n] + offset, result, piece_bytes);
  }
  ++g_;
  tell_chunks(&RankControl::staged, g_);
  tell_chunks(&RankControl::reduced, g_);
  for (int r = 0; r < n; ++r) {
    if (r == group_.rank()) continue;
    if (Status s = await_chunks(&RankControl::reduced, r, g_); !s) return s;
    seen_reduced_[r] = g_;
  }
  return {};
}

}  // namespace slipring::collectives
