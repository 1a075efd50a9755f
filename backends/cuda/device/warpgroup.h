// Products of matrices by a warpgroup, four warps of which the first is a multiple of four: PTX
// ISA, "wgmma.mma_async". They run beside the threads: d is not touched, nor is what a and B are of
// changed, until warpgroup_wait() has waited for their group.
//   a:  of warp w: rows 16w … 16w + 15, as mma_f16() takes them (device/mma.h)
//   d:  of 8 columns after the other, four each: as mma_f16() has them
//   B:  in shared memory, K-major without swizzling: 8 columns times 8 elements of K are 128 bytes
//       that lie together, 16 bytes a column
// A descriptor of B (PTX ISA, "Matrix Descriptor Format") has, in units of 16 bytes,
//   bits 0 … 13   the begin in shared memory
//   bits 16 … 29  from 8 elements of K to the next 8 ("leading dimension byte offset")
//   bits 32 … 45  from 8 columns to the next 8 ("stride dimension byte offset")
// and zeros for the base offset (49 … 51) and for no swizzling (62, 63).
// Products read shared memory by the asynchronous proxy, as bulk copies write it
// (device/bulk_copy.h). Who has written it otherwise, also by an asynchronous copy that it has
// waited for, calls show_products() before the barrier behind which they begin.
#pragma once

#ifndef INFER_CUDA_EMULATED

#include "backends/cuda/device/block.h"

namespace infer::cuda {

/// What the thread has written in shared memory is there for products that begin after a barrier.
INFER_DEVICE void show_products() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// A descriptor of B. `k_bytes` and `column_bytes`: from 8 elements of K, and from 8 columns, to
/// the next 8.
template <typename T>
INFER_DEVICE uint64_t product_matrix(SharedPtr<T> begin, uint32_t k_bytes, uint32_t column_bytes) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(begin));
  return uint64_t{at >> 4} | uint64_t{k_bytes >> 4} << 16 | uint64_t{column_bytes >> 4} << 32;
}

/// Before products whose registers have been written since the last ones began.
INFER_DEVICE void warpgroup_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// The products since the last commit are a group.
INFER_DEVICE void warpgroup_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most this many groups run.
template <uint32_t kPending>
INFER_DEVICE void warpgroup_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

#define INFER_SUMS_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define INFER_SUMS_8(i) INFER_SUMS_4(i), INFER_SUMS_4(i + 4)
#define INFER_SUMS_32(i) \
  INFER_SUMS_8(i), INFER_SUMS_8(i + 8), INFER_SUMS_8(i + 16), INFER_SUMS_8(i + 24)
#define INFER_WGMMA(n, sums, a0, a1, a2, a3, b, added, ...)                                     \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, " added                                          \
               ", 0;\n"                                                                         \
               "wgmma.mma_async.sync.aligned.m64n" n "k16.f32.f16.f16 {" sums "}, {" a0 ", " a1 \
               ", " a2 ", " a3 "}, " b ", p, 1, 1, 0; }"                                        \
               : __VA_ARGS__                                                                    \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_matrix), "r"(add ? 1 : 0)    \
               : "memory")
#define INFER_NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define INFER_NAMES_32                                                                         \
  INFER_NAMES_8                                                                                \
  ", %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, " \
  "%26, %27, %28, %29, %30, %31"
#define INFER_NAMES_64                                                                          \
  INFER_NAMES_32                                                                                \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49," \
  " %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
/// d = a·b, or `add`: a·b + d; A 64×16 and B of 16 elements of K of float16, sums of float32: of 16
/// columns …
INFER_DEVICE void warpgroup_product(float (&d)[8], const uint32_t (&a)[4], uint64_t b_matrix,
                                    bool add) {
  INFER_WGMMA("16", INFER_NAMES_8, "%8", "%9", "%10", "%11", "%12", "%13", INFER_SUMS_8(0));
}
/// … 64 …
INFER_DEVICE void warpgroup_product(float (&d)[32], const uint32_t (&a)[4], uint64_t b_matrix,
                                    bool add) {
  INFER_WGMMA("64", INFER_NAMES_32, "%32", "%33", "%34", "%35", "%36", "%37", INFER_SUMS_32(0));
}
/// … and 128.
INFER_DEVICE void warpgroup_product(float (&d)[64], const uint32_t (&a)[4], uint64_t b_matrix,
                                    bool add) {
  INFER_WGMMA("128", INFER_NAMES_64, "%64", "%65", "%66", "%67", "%68", "%69", INFER_SUMS_32(0),
              INFER_SUMS_32(32));
}
#undef INFER_NAMES_8
#undef INFER_NAMES_32
#undef INFER_NAMES_64
#undef INFER_WGMMA
#undef INFER_SUMS_4
#undef INFER_SUMS_8
#undef INFER_SUMS_32

#endif

}  // namespace infer::cuda

#endif

namespace infer::cuda {

/// The same so many times 16 bytes further, in shared memory.
INFER_DEVICE uint64_t product_matrix_at(uint64_t matrix, uint32_t sixteens) {
  // No carry leaves the bits of the begin.
  return (matrix & 0xffffffff00000000u) | (static_cast<uint32_t>(matrix) + sixteens);
}

}  // namespace infer::cuda
