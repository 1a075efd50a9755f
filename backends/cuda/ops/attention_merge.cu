#include "backends/cuda/device/column_bytes.h"
#include "backends/cuda/device/merge.h"
#include "backends/cuda/ops/attention.h"

namespace infer::cuda {

// A lane of a warp has a chunk. What merge() makes of the chunks one after another is made of all
// of them at once, but for the sums: largest scores so far are the same in any order.
static_assert(kChunks == 32);

INFER_KERNEL(attention_merge, AttentionMergeParams, kMergeThreads, 1) {
  const uint32_t d = block_x() * threads() + thread();
  const uint32_t head = block_y();
  const uint32_t row = block_z();
  if (row >= step_rows(p.step, p.rows)) return;
  const auto slot = static_cast<uint32_t>(Global<const int32_t>(p.slots)[row]);
  const uint32_t pages = pages_seen(first_seen(slot, p.window, p.chunked), slot);
  const uint32_t count = (pages + chunk_pages(pages) - 1) / chunk_pages(pages);
  const uint32_t chunk_floats = p.v_dim + 2;
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
  float mix = 0;
  const uint32_t element = d < p.v_dim ? d : 0;
#pragma unroll 8
  for (uint32_t c = 0; c < count; ++c) {
    const Merging m{shuffle(own.keep, c), shuffle(own.add, c)};
    sum = merged_sum(sum, shuffle(own_sum, c), m);
    mix = merged_mix(mix, chunks[c * chunk_floats + 2 + element], m);
  }
  if (p.results.words != 0) {  // a warp has a piece
    const float value = mix / sum;
    const uint32_t first = lane() % 8 * 4;
    const float4 four{shuffle(value, first), shuffle(value, first + 1), shuffle(value, first + 2),
                      shuffle(value, first + 3)};
    const uint32_t tiles = p.heads * p.v_dim / 64;
    store_piece(p.results, tiles, p.result_runs, 0,
                lane() < 8 ? (head * p.v_dim + d) / 32 : 2 * tiles, four);
  } else if (d < p.v_dim) {
    Global<float>(p.y)[place(p.y_strides, head, row) + d] = mix / sum;
  }
}

}  // namespace infer::cuda
