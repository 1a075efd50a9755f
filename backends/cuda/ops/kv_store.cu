#include "backends/cuda/ops/kv_store.h"

#include "backends/cuda/device/cache.h"

namespace infer::cuda {

INFER_KERNEL(kv_store, KvStoreParams, kStoreThreads, 1) {
  const uint32_t block = cache_block(p.type);
  const uint32_t i = block_x() * threads() + thread();
  const uint32_t head = block_y();
  const uint32_t row = block_z();
  if (row >= step_rows(p.step, gpu::kTokenRows) || i * block >= p.dim) return;
  const auto slot = static_cast<uint32_t>(Global<const int32_t>(p.slots)[row]);
  const auto sequence = static_cast<uint32_t>(Global<const int32_t>(p.sequences)[row]);
  if ((slot + 1) % p.tokens != 0) return;
  const uint64_t page = pages_of(p.step, p.kind).of(sequence, slot);
  const Global<const float> x(p.x);
  const uint32_t from = place(p.x_strides, head, row) + i * block;
  float values[32];
#pragma unroll
  for (uint32_t j = 0; j < 32; ++j) values[j] = j < block ? x[from + j] : 0.0f;
  store_in_page(p.type, values, page + p.offset, head, slot % kPageTokens / p.tokens, p.stride,
                p.across, i);
}

}  // namespace infer::cuda
