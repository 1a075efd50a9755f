#include "backends/cuda/device/cache.h"
#include "backends/cuda/device/rotation.h"
#include "backends/cuda/ops/kv_store.h"

namespace infer::cuda {

INFER_KERNEL(rope_store, RopeStoreParams, kStoreThreads, 1) {
  const uint32_t i = block_x() * threads() + thread();
  const uint32_t row = block_z();
  uint32_t head = block_y();
  if (row >= step_rows(p.step, gpu::kTokenRows)) return;
  const Global<const float> table(p.table);
  if (head < p.query_heads) {
    if (i >= p.k_dim) return;
    Global<float>(p.y)[place(p.y_strides, head, row) + i] =
        roped(p.style, Global<const float>(p.q), place(p.q_strides, head, row), i, p.pairs, table,
              p.table_strides, row);
    return;
  }
  head -= p.query_heads;
  const bool values = head >= p.kv_heads;
  if (values) head -= p.kv_heads;
  const uint32_t type = values ? p.v_type : p.k_type;
  const uint32_t block = cache_block(type);
  if (i * block >= (values ? p.v_dim : p.k_dim)) return;
  const auto slot = static_cast<uint32_t>(Global<const int32_t>(p.slots)[row]);
  const auto sequence = static_cast<uint32_t>(Global<const int32_t>(p.sequences)[row]);
  const uint64_t page = pages_of(p.step, p.kind).of(sequence, slot);
  float x[32];
  if (values) {
    const Global<const float> v(p.v);
    const uint32_t from = place(p.v_strides, head, row) + i * block;
#pragma unroll
    for (uint32_t j = 0; j < 32; ++j) x[j] = j < block ? v[from + j] : 0.0f;
    store_in_page(type, x, page + p.v_offset, head, slot, p.v_row, 0, i);
    return;
  }
  const Global<const float> k(p.k);
  const uint32_t from = place(p.k_strides, head, row);
#pragma unroll
  for (uint32_t j = 0; j < 32; ++j) {
    x[j] = j < block ? roped(p.style, k, from, i * block + j, p.pairs, table, p.table_strides, row)
                     : 0.0f;
  }
  store_in_page(type, x, page + p.k_offset, head, slot, p.k_row, p.across, i);
}

}  // namespace infer::cuda
