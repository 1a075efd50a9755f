// The table of an instruction set's primitives, and what it can read and multiply at most.
#pragma once

#include "backends/cpu/simd/attention_impl.h"
#include "backends/cpu/simd/clean.h"
#include "backends/cpu/simd/recurrent.h"
#include "backends/cpu/simd/vec_impl.h"

namespace infer::cpu {
namespace {

uint64_t read_all(const std::byte* data, int64_t bytes) {
  constexpr int kSums = 256 / sizeof(I) < 8 ? 256 / sizeof(I) : 8;
  I sums[kSums];
  for (I& sum : sums) sum = I::set(0);
  for (int64_t i = 0; i < bytes; i += int64_t{sizeof(sums)}) {
    for (int s = 0; s < kSums; ++s) {
      sums[s] = sums[s] ^ I::load(data + i + s * int64_t{sizeof(I)});
    }
  }
  for (int s = 1; s < kSums; ++s) sums[0] = sums[0] ^ sums[s];
  uint64_t first;
  std::memcpy(&first, sums, sizeof(first));
  return first;
}

/// Twelve independent chains, so that the latency of the instruction is hidden.
int64_t int8_products(int64_t rounds) {
  constexpr int kChains = 12;
  I chains[kChains];
  for (int c = 0; c < kChains; ++c) chains[c] = I::set(0x01010101 * (c + 1));
  for (int64_t r = 0; r < rounds; ++r) {
    for (I& chain : chains) chain = byte_products(chain);
  }
  return rounds * kChains * kByteProducts;
}

constexpr VecOps vec_ops() {
  return {clean<dot_rows>,
          kMostConverted,
          clean<sum_squares>,
          clean<scale_mul>,
          clean<add_scaled>,
          clean<axpy>,
          clean<max>,
          clean<exp_sum>,
          clean<softcap>,
          clean<glu>,
          clean<gelu>,
          clean<f16_to_f32>,
          clean<f32_to_f16>,
          clean<bf16_to_f32>,
          clean<quantise>,
          clean<read_all>,
          kByteProducts > 0 ? clean<int8_products> : nullptr,
          &kAttentionOps,
          &kRecurrentOps};
}

}  // namespace
}  // namespace infer::cpu
