#include "tests/cuda/emulator/warpgroup_faults.h"

#include "backends/cuda/device/async_copy.h"
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
                                            p.wrong == WrongProduct::other_matrix ? 16 : 0);
  warpgroup_product(d, a, matrix, false);
  warpgroup_product(d, a, matrix, true);
  warpgroup_commit();
  if (p.wrong == WrongProduct::sums_changed) d[3] = 0;
  if (p.wrong == WrongProduct::registers_changed) a[1] ^= 1;
  if (p.wrong == WrongProduct::matrix_changed && thread() == 7) b[5] = 0;
  if (p.wrong != WrongProduct::not_waited) warpgroup_wait<0>();
  for (uint32_t i = 0; i < 8; ++i) Global<float>(p.d)[thread() * 8 + i] = d[i];
}

}  // namespace infer::cuda
