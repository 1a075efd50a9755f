// What plain code can read at most.
#pragma once

#include "backends/cpu/simd/attention_impl.h"
#include "backends/cpu/simd/vec_impl.h"

namespace infer::cpu {
namespace {

uint64_t read_all(const std::byte* data, int64_t bytes) {
  const auto* words = reinterpret_cast<const uint64_t*>(data);
  uint64_t sums[4] = {};
  for (int64_t i = 0; i < bytes / 8; i += 4) {
    for (int lane = 0; lane < 4; ++lane) sums[lane] ^= words[i + lane];
  }
  return sums[0] ^ sums[1] ^ sums[2] ^ sums[3];
}

constexpr int64_t (*int8_products)(int64_t) = nullptr;

constexpr VecOps vec_ops() {
  return {dot_rows,    sum_squares, scale_mul, add_scaled,    axpy,
          max,         exp_sum,     glu,       f16_to_f32,    f32_to_f16,
          bf16_to_f32, quantise,    read_all,  int8_products, &kAttentionOps};
}

}  // namespace
}  // namespace infer::cpu
