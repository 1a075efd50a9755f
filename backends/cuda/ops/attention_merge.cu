#include "backends/cuda/device/merge.h"
#include "backends/cuda/ops/attention.h"

namespace infer::cuda {

INFER_KERNEL(attention_merge, AttentionMergeParams, kMergeThreads, 1) {
  const uint32_t d = block_x() * threads() + thread();
  const uint32_t head = block_y();
  const uint32_t row = block_z();
  if (row >= step_rows(p.step, p.rows) || d >= p.v_dim) return;
  const auto slot = static_cast<uint32_t>(Global<const int32_t>(p.slots)[row]);
  const uint32_t pages = pages_seen(first_seen(slot, p.window, p.chunked), slot);
  const uint32_t count = (pages + chunk_pages(pages) - 1) / chunk_pages(pages);
  float most = p.sinks != 0 ? Global<const float>(p.sinks)[head] : -infinity();
  float sum = p.sinks != 0 ? 1.0f : 0.0f;
  float mix = 0;
  for (uint32_t c = 0; c < count; ++c) {
    const Global<const float> from(p.chunks + ((uint64_t{row} * p.heads + head) * kChunks + c) *
                                                  (p.v_dim + 2) * 4);
    const Merging m = merge(most, sum, from[1], from[0]);
    mix = merged_mix(mix, from[2 + d], m);
  }
  Global<float>(p.y)[place(p.y_strides, head, row) + d] = mix / sum;
}

}  // namespace infer::cuda
