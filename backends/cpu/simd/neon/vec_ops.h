// What Advanced SIMD can read and multiply at most.
#pragma once

#include "backends/cpu/simd/attention_impl.h"
#include "backends/cpu/simd/vec_impl.h"

namespace infer::cpu {
namespace {

uint64_t read_all(const std::byte* data, int64_t bytes) {
  uint8x16_t sums[16] = {};
  for (int64_t i = 0; i < bytes; i += 256) {
    for (int lane = 0; lane < 16; ++lane) {
      sums[lane] ^= vld1q_u8(reinterpret_cast<const uint8_t*>(data + i + lane * 16));
    }
  }
  for (int lane = 1; lane < 16; ++lane) sums[0] ^= sums[lane];
  return vgetq_lane_u64(vreinterpretq_u64_u8(sums[0]), 0);
}

/// Independent chains of the instruction that the kernels multiply with, enough of them to hide its
/// latency.
int64_t int8_products(int64_t rounds) {
  constexpr int kChains = 16;
  const int8x16_t ones = vdupq_n_s8(1);
#if defined(__ARM_FEATURE_MATMUL_INT8) || defined(__ARM_FEATURE_DOTPROD)
  int32x4_t chains[kChains] = {};
#else
  int16x8_t chains[kChains] = {};
#endif
  for (int64_t r = 0; r < rounds; ++r) {
    for (int c = 0; c < kChains; ++c) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
      chains[c] = vmmlaq_s32(chains[c], ones, ones);
#elif defined(__ARM_FEATURE_DOTPROD)
      chains[c] = vdotq_s32(chains[c], ones, ones);
#else
      chains[c] = vmlal_high_s8(chains[c], ones, ones);
#endif
      asm volatile("" : "+w"(chains[c]));
    }
  }
#if defined(__ARM_FEATURE_MATMUL_INT8)
  constexpr int kProducts = 32;
#elif defined(__ARM_FEATURE_DOTPROD)
  constexpr int kProducts = 16;
#else
  constexpr int kProducts = 8;
#endif
  return rounds * kChains * kProducts;
}

constexpr VecOps vec_ops() {
  return {dot_columns, sum_squares, scale_mul, add_scaled,    axpy,
          max,         exp_sum,     glu,       f16_to_f32,    f32_to_f16,
          bf16_to_f32, quantise,    read_all,  int8_products, &kAttentionOps};
}

}  // namespace
}  // namespace infer::cpu
