// What AVX2 can read and multiply at most.
#pragma once

#include "backends/cpu/simd/attention_impl.h"
#include "backends/cpu/simd/vec_impl.h"

namespace infer::cpu {
namespace {

uint64_t read_all(const std::byte* data, int64_t bytes) {
  __m256i sums[8] = {};
  for (int64_t i = 0; i < bytes; i += 256) {
    for (int lane = 0; lane < 8; ++lane) {
      const auto* p = reinterpret_cast<const __m256i*>(data + i + lane * 32);
      sums[lane] = _mm256_xor_si256(sums[lane], _mm256_loadu_si256(p));
    }
  }
  for (int lane = 1; lane < 8; ++lane) sums[0] = _mm256_xor_si256(sums[0], sums[lane]);
  return static_cast<uint64_t>(_mm256_extract_epi64(sums[0], 0));
}

/// Twelve independent chains, so that the latency of the instruction is hidden.
int64_t int8_products(int64_t rounds) {
  constexpr int kChains = 12;
  __m256i chains[kChains];
  for (int c = 0; c < kChains; ++c) chains[c] = _mm256_set1_epi8(static_cast<char>(c + 1));
  const __m256i ones = _mm256_set1_epi8(1);
  for (int64_t r = 0; r < rounds; ++r) {
    for (int c = 0; c < kChains; ++c) {
      chains[c] = _mm256_maddubs_epi16(ones, chains[c]);
      asm volatile("" : "+x"(chains[c]));
    }
  }
  return rounds * kChains * 32;
}

constexpr VecOps vec_ops() {
  return {dot_rows,    sum_squares, scale_mul, add_scaled,    axpy,
          max,         exp_sum,     glu,       f16_to_f32,    f32_to_f16,
          bf16_to_f32, quantise,    read_all,  int8_products, &kAttentionOps};
}

}  // namespace
}  // namespace infer::cpu
