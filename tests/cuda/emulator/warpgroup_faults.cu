#include "tests/cuda/emulator/warpgroup_faults.h"

#include "backends/cuda/device/async_copy.h"
#include "backends/cuda/device/bulk_copy.h"
#include "backends/cuda/device/warpgroup.h"

namespace infer::cuda {

INFER_KERNEL(product_64_16, WarpgroupParams, 128, 1) {
  INFER_SHARED(uint32_t, columns, 256);
  const SharedPtr<uint32_t> b(columns);
  if (thread() < 32) {
    async_copy_16(b, thread() * 4, Global<const uint32_t>(p.b), thread() * 4);
  }
  async_commit();
  async_wait<0>();
  if (p.wrong != WrongProduct::not_shown) show_products();
  sync_block();
  uint32_t a[4];
  for (uint32_t i = 0; i < 4; ++i) a[i] = Global<const uint32_t>(p.a)[thread() * 4 + i];
  float d[8];
  if (p.wrong != WrongProduct::not_fenced) warpgroup_fence();
  const uint64_t matrix = product_matrix_at(product_matrix(b, 256, 128),
                                            p.wrong == WrongProduct::other_matrix ? 1 : 0);
  warpgroup_product(d, a, matrix, false);
  warpgroup_product(d, a, matrix, true);
  warpgroup_commit();
  if (p.wrong == WrongProduct::sums_changed) d[3] = 0;
  if (p.wrong == WrongProduct::registers_changed) a[1] ^= 1;
  if (p.wrong == WrongProduct::matrix_changed && thread() == 7) b[5] = 0;
  if (p.wrong != WrongProduct::not_waited) warpgroup_wait<0>();
  for (uint32_t i = 0; i < 8; ++i) Global<float>(p.d)[thread() * 8 + i] = d[i];
}

// Two copies of half of the values, and each becomes that of the thread 33 further.
INFER_KERNEL(bulk_rotate, BulkParams, 128, 1) {
  INFER_SHARED(uint64_t, barriers, 1);
  INFER_SHARED(float, values, 128);
  const SharedPtr<uint64_t> barrier(barriers);
  if (thread() == 0 && p.wrong != WrongCopy::no_barrier) bulk_barrier(barrier);
  sync_block();
  if (thread() == 40) {
    if (p.wrong != WrongCopy::not_expected) {
      bulk_expect(barrier, p.wrong == WrongCopy::too_few_expected ? 256 : 512);
    }
    for (uint32_t i = 0; i < 128; i += 64) {
      bulk_copy(SharedPtr<float>(values), i, Global<const float>(p.x), i, 256, barrier);
    }
  }
  if (p.wrong != WrongCopy::not_waited) bulk_wait(barrier, 0);
  Global<float>(p.y)[thread()] = values[(thread() + 33) % 128];
}

}  // namespace infer::cuda
