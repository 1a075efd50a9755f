#include "backends/cuda/device/cache.h"
#include "backends/cuda/device/rotation.h"
#include "backends/cuda/ops/kv_store.h"

namespace infer::cuda {

INFER_KERNEL(rope_store, RopeStoreParams, kRopeStoreThreads, 1) {
  const uint32_t all = block_x() * threads() + thread();
  const uint32_t row = block_y();
  const uint32_t i = all % p.width;
  uint32_t head = all / p.width;
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
  if (head >= p.kv_heads) return;
  const uint32_t type = values ? p.v_type : p.k_type;
  const uint32_t block = cache_block(type);
  if (i * block >= (values ? p.v_dim : p.k_dim)) return;
  const auto slot = static_cast<uint32_t>(Global<const int32_t>(p.slots)[row]);
  const auto sequence = static_cast<uint32_t>(Global<const int32_t>(p.sequences)[row]);
  const uint64_t page = pages_of(p.step, p.kind).of(sequence, slot);
  const Global<const float> k(p.k);
  const Global<const float> v(p.v);
  const uint32_t from = values ? place(p.v_strides, head, row) : place(p.k_strides, head, row);
  const auto element = [&](uint32_t e) {
    return values ? v[from + e] : roped(p.style, k, from, e, p.pairs, table, p.table_strides, row);
  };
  float x[32];
  if (block == 1) {
    x[0] = element(i);
  } else {
#pragma unroll
    for (uint32_t j = 0; j < 32; ++j) x[j] = element(i * 32 + j);
  }
  if (values) {
    store_in_page(type, x, page + p.v_offset, head, slot, p.v_row, 0, i);
  } else {
    store_in_page(type, x, page + p.k_offset, head, slot, p.k_row, p.across, i);
  }
}

}  // namespace infer::cuda
