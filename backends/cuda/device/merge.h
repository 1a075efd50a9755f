// The chunks of attention (ops/attention.h).
#pragma once

#include "backends/cuda/device/arrival.h"
#include "backends/cuda/device/cache.h"
#include "backends/cuda/device/column_bytes.h"
#include "backends/cuda/ops/attention.h"

namespace infer::cuda {

/// The first slot that a row at `slot` sees. `chunked`: not 0: windows do not move with the row,
/// but follow one another (op::Attention).
INFER_DEVICE uint32_t first_seen(uint32_t slot, uint32_t window, uint32_t chunked) {
  if (chunked != 0) return slot - slot % window;
  return window > 0 && slot + 1 > window ? slot + 1 - window : 0;
}
INFER_DEVICE uint32_t pages_seen(uint32_t first, uint32_t slot) {
  return slot / kPageTokens - first / kPageTokens + 1;
}
INFER_DEVICE uint32_t chunk_pages(uint32_t pages) { return (pages + kChunks - 1) / kChunks; }

/// Takes a chunk (its largest score and sum) into what is merged so far. Mixes go along as
/// merged · keep + the chunk's · add.
struct Merging {
  float keep, add;
};
/// `now`: the larger of the two.
INFER_DEVICE Merging merging(float most, float chunk_most, float now) {
  return {exp_of(most - now), exp_of(chunk_most - now)};
}
INFER_DEVICE float merged_sum(float sum, float chunk_sum, const Merging& m) {
  return fused(chunk_sum, m.add, sum * m.keep);
}
INFER_DEVICE Merging merge(float& most, float& sum, float chunk_most, float chunk_sum) {
  const float now = most_of(most, chunk_most);
  const Merging m = merging(most, chunk_most, now);
  sum = merged_sum(sum, chunk_sum, m);
  most = now;
  return m;
}
INFER_DEVICE float merged_mix(float mix, float chunk_mix, const Merging& m) {
  return fused(chunk_mix, m.add, mix * m.keep);
}

// A lane of a warp has a chunk. What merge() makes of the chunks one after another is made of all
// of them at once, but for the sums: largest scores so far are the same in any order.
static_assert(kChunks == 32);

/// Merges the chunks of `heads` heads of a row. A warp has up to four pieces of 32 elements of a
/// head.
INFER_DEVICE void merge_chunks(const AttentionParams& p, uint32_t row, uint32_t first_head,
                               uint32_t heads, uint32_t count) {
  constexpr uint32_t kPieces = 4;
  const uint32_t chunk_floats = p.v_dim + 2;
  const uint32_t parts = (p.v_dim + 32 * kPieces - 1) / (32 * kPieces);  // of a head
  for (uint32_t i = warp(); i < heads * parts; i += kAttentionWarps) {
    const uint32_t head = first_head + i / parts;
    const uint32_t begin = i % parts * 32 * kPieces;
    const Global<const float> chunks(p.chunks +
                                     (uint64_t{row} * p.heads + head) * kChunks * chunk_floats * 4);
    const float first = p.sinks != 0 ? Global<const float>(p.sinks)[head] : -infinity();
    const bool given = lane() < count;
    const float own_most = given ? chunks[lane() * chunk_floats + 1] : -infinity();
    const float own_sum = given ? chunks[lane() * chunk_floats] : 0.0f;
    float most = most_of(first, own_most);  // of the chunks up to the lane's
    for (uint32_t back = 1; back < kChunks; back *= 2) {
      const float other = shuffle(most, lane() - back);
      if (lane() >= back) most = most_of(other, most);
    }
    const float before = shuffle(most, lane() - 1);
    const Merging own = merging(lane() == 0 ? first : before, own_most, most);
    float sum = p.sinks != 0 ? 1.0f : 0.0f;
    float mix[kPieces] = {};
#pragma unroll 8
    for (uint32_t c = 0; c < count; ++c) {
      const Merging m{shuffle(own.keep, c), shuffle(own.add, c)};
      sum = merged_sum(sum, shuffle(own_sum, c), m);
#pragma unroll
      for (uint32_t piece = 0; piece < kPieces; ++piece) {
        const uint32_t d = begin + piece * 32 + lane();
        mix[piece] =
            merged_mix(mix[piece], chunks[c * chunk_floats + 2 + (d < p.v_dim ? d : 0)], m);
      }
    }
#pragma unroll
    for (uint32_t piece = 0; piece < kPieces; ++piece) {
      const uint32_t d = begin + piece * 32 + lane();
      const float value = mix[piece] / sum;
      if (p.results.words != 0) {
        const uint32_t from = lane() % 8 * 4;
        const float4 four{shuffle(value, from), shuffle(value, from + 1), shuffle(value, from + 2),
                          shuffle(value, from + 3)};
        const uint32_t tiles = p.heads * p.v_dim / 64;
        const bool stored = lane() < 8 && begin + piece * 32 < p.v_dim;
        store_piece(p.results, tiles, p.result_runs, 0,
                    stored ? (head * p.v_dim + d) / 32 : 2 * tiles, four);
      } else if (d < p.v_dim) {
        Global<float>(p.y)[place(p.y_strides, head, row) + d] = value;
      }
    }
  }
}

}  // namespace infer::cuda
