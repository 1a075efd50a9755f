// Products of matrix fragments by a warp: PTX ISA, "mma". Lane l of a warp is in group g = l / 4
// and is number t = l % 4 of it.
//   bytes: a[0], a[1]: rows g and g + 8, elements 4t … 4t + 3 of K; a[2], a[3]: the same 16 further
//          b[0]: column g, elements 4t … of K; b[1]: 16 further
//   halves: a[0], a[1]: rows g and g + 8, elements 2t, 2t + 1 of K; a[2], a[3]: the same 8 further
//          b[0]: column g, elements 2t, 2t + 1 of K; b[1]: 8 further
//   c, d: rows g, g, g + 8, g + 8, columns 2t, 2t + 1, 2t, 2t + 1
// Lanes load four matrices of 8 rows of 8 halves from shared memory at once (PTX ISA, "ldmatrix"):
// lane l names row l % 8 of matrix l / 8, 16 bytes at a multiple of 16. v[m] is of matrix m: row g,
// elements 2t and 2t + 1; of turned ones rows 2t and 2t + 1, element g.
#pragma once

#ifndef INFER_CUDA_EMULATED

#include "backends/cuda/device/math.h"

namespace infer::cuda {

#define INFER_MMA_16(d, a0, a1, b0, c, type)           \
  asm("mma.sync.aligned.m16n8k16.row.col.s32." type    \
      ".s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "     \
      "{%7, %8, %9, %10};"                             \
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) \
      : "r"(a0), "r"(a1), "r"(b0), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]))
#define INFER_MMA_32(d, a, b, c, type)                                                          \
  asm("mma.sync.aligned.m16n8k32.row.col.s32." type                                             \
      ".s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"             \
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])                                          \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), \
        "r"(c[2]), "r"(c[3]))
// sm_75 has products of 8 rows alone.
#define INFER_MMA_8(d0, d1, a0, b0, c0, c1, type)  \
  asm("mma.sync.aligned.m8n8k16.row.col.s32." type \
      ".s8.s32 {%0, %1}, {%2}, {%3}, "             \
      "{%4, %5};"                                  \
      : "=r"(d0), "=r"(d1)                         \
      : "r"(a0), "r"(b0), "r"(c0), "r"(c1))

#if __CUDA_ARCH__ >= 800
#define INFER_MMA_BYTES(name, type)                                                    \
  /* d = a·b + c; A of 16 rows and 16 elements of K */                                \
  INFER_DEVICE void name(int32_t(&d)[4], const uint32_t(&a)[2], const uint32_t(&b)[1], \
                         const int32_t(&c)[4]) {                                       \
    INFER_MMA_16(d, a[0], a[1], b[0], c, type);                                        \
  }                                                                                    \
  /* d = a·b + c; A of 16 rows and 32 elements of K */                                \
  INFER_DEVICE void name(int32_t(&d)[4], const uint32_t(&a)[4], const uint32_t(&b)[2], \
                         const int32_t(&c)[4]) {                                       \
    INFER_MMA_32(d, a, b, c, type);                                                    \
  }
#else
#define INFER_MMA_BYTES(name, type)                                                    \
  INFER_DEVICE void name(int32_t(&d)[4], const uint32_t(&a)[2], const uint32_t(&b)[1], \
                         const int32_t(&c)[4]) {                                       \
    INFER_MMA_8(d[0], d[1], a[0], b[0], c[0], c[1], type);                             \
    INFER_MMA_8(d[2], d[3], a[1], b[0], c[2], c[3], type);                             \
  }                                                                                    \
  INFER_DEVICE void name(int32_t(&d)[4], const uint32_t(&a)[4], const uint32_t(&b)[2], \
                         const int32_t(&c)[4]) {                                       \
    int32_t e[4];                                                                      \
    INFER_MMA_8(e[0], e[1], a[0], b[0], c[0], c[1], type);                             \
    INFER_MMA_8(e[2], e[3], a[1], b[0], c[2], c[3], type);                             \
    INFER_MMA_8(d[0], d[1], a[2], b[1], e[0], e[1], type);                             \
    INFER_MMA_8(d[2], d[3], a[3], b[1], e[2], e[3], type);                             \
  }
#endif
INFER_MMA_BYTES(mma_s8, "s8")  ///< A of signed bytes; B always is
INFER_MMA_BYTES(mma_u8, "u8")  ///< A of unsigned bytes
#undef INFER_MMA_BYTES
#undef INFER_MMA_8
#undef INFER_MMA_16
#undef INFER_MMA_32

/// d = a·b + c; A 16×16 and B 16×8 of float16, sums of float32.
INFER_DEVICE void mma_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                          const float (&c)[4]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]),
        "f"(c[2]), "f"(c[3]));
#else
  float e[4];
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%7, %8, %9, %10};"
      : "=f"(e[0]), "=f"(e[1]), "=f"(e[2]), "=f"(e[3])
      : "r"(a[0]), "r"(a[1]), "r"(b[0]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%7, %8, %9, %10};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[2]), "r"(a[3]), "r"(b[1]), "f"(e[0]), "f"(e[1]), "f"(e[2]), "f"(e[3]));
#endif
}

/// The same of bfloat16.
INFER_DEVICE void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                           const float (&c)[4]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%10, %11, %12, %13};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]),
        "f"(c[2]), "f"(c[3]));
#else
  // sm_75 has none. A later GPU comes here where a build has nothing but PTX of sm_75 for it.
  float sums[4] = {c[0], c[1], c[2], c[3]};
  for (uint32_t four = 0; four < 4; ++four) {
    for (uint32_t pair = 0; pair < 2; ++pair) {
      const uint32_t rows[2] = {shuffle(a[2 * pair], lane() / 4 * 4 + four),
                                shuffle(a[2 * pair + 1], lane() / 4 * 4 + four)};
      const uint32_t columns[2] = {shuffle(b[pair], lane() % 4 * 8 + four),
                                   shuffle(b[pair], lane() % 4 * 8 + 4 + four)};
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t x = rows[i / 2];
        const uint32_t y = columns[i % 2];
        sums[i] = fused(float_of(x << 16), float_of(y << 16), sums[i]);
        sums[i] = fused(float_of(x & 0xffff0000u), float_of(y & 0xffff0000u), sums[i]);
      }
    }
  }
  for (uint32_t i = 0; i < 4; ++i) d[i] = sums[i];
#endif
}

#define INFER_LOAD_MATRICES(name, how)                                                     \
  template <typename T>                                                                    \
  INFER_DEVICE void name(uint32_t(&v)[4], SharedPtr<T> from, uint32_t i) {                 \
    const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(from + i));             \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" how ".shared.b16 {%0, %1, %2, %3}, [%4];" \
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])                          \
                 : "r"(at)                                                                 \
                 : "memory");                                                              \
  }
INFER_LOAD_MATRICES(load_matrices, "")
INFER_LOAD_MATRICES(load_turned_matrices, ".trans")
#undef INFER_LOAD_MATRICES

}  // namespace infer::cuda

#endif
