// Activations of products, rounded to bytes by 32 neighbours with the scale most / 127.
#pragma once

#include "backends/cuda/device/math.h"
#include "backends/cuda/device/memory.h"

namespace infer::cuda {

/// Elements i to i + 3 of the column of k elements that begins at x[from], zeros from k on.
/// `aligned`: columns begin at multiples of 16 bytes.
INFER_DEVICE float4 four_elements(const Global<const float>& x, uint32_t from, uint32_t i,
                                  uint32_t k, uint32_t aligned) {
  float4 v{0, 0, 0, 0};
  if (aligned != 0 && i + 4 <= k) {
    v = load_as<float4>(x, int64_t{from} + i);
  } else {
    if (i < k) v.x = x[int64_t{from} + i];
    if (i + 1 < k) v.y = x[int64_t{from} + i + 1];
    if (i + 2 < k) v.z = x[int64_t{from} + i + 2];
    if (i + 3 < k) v.w = x[int64_t{from} + i + 3];
  }
  return v;
}

/// What the sums of integers begin with: the bits of 2^23 + 2^22 (weights/fragment_sums.h).
inline constexpr int32_t kRaisedSum = 0x4b400000;
/// −scale · (2^23 + 2^22), which is exact.
INFER_DEVICE float raised_scale(float scale) { return -12582912.0f * scale; }

INFER_DEVICE uint32_t larger_of(uint32_t a, uint32_t b) { return a > b ? a : b; }
/// The bits of the largest magnitude of four: NaN is larger than all numbers.
INFER_DEVICE uint32_t most_bits(const float4& x) {
  return larger_of(larger_of(bits_of(magnitude_of(x.x)), bits_of(magnitude_of(x.y))),
                   larger_of(bits_of(magnitude_of(x.z)), bits_of(magnitude_of(x.w))));
}

/// How 32 neighbours become bytes.
struct BytesScale {
  float inverse;
  float scale;  ///< of a byte, with no more than 22 bits
};
/// `most`: the largest of their magnitudes; NaN if there is one.
INFER_DEVICE BytesScale bytes_scale(float most) {
  return {most > 1e-30f ? 127.0f / most : 0.0f, float_of(bits_of(most * (1.0f / 127.0f)) & ~3u)};
}
/// Four of them, to the nearest, halves to even: adding 2^23 + 2^22 rounds to a whole number, which
/// is in the lower bits then.
INFER_DEVICE uint32_t four_bytes(const float4& x, const BytesScale& of) {
  const auto raised = [&](float value) { return bits_of(value * of.inverse + 12582912.0f); };
  const uint32_t low = permute(raised(x.x), raised(x.y), 0x0040u);
  const uint32_t high = permute(raised(x.z), raised(x.w), 0x0040u);
  return permute(low, high, 0x5410u);
}

/// Four of 32 neighbours: a byte each, and their sum.
struct FourBytes {
  uint32_t word;
  int32_t sum;
  float scale;  ///< of the 32, with no more than 22 bits
};

/// Eight lanes, the first at a multiple of 8, have 32 neighbours.
INFER_DEVICE FourBytes bytes_of_four(const float4& x) {
  uint32_t most = most_bits(x);
#pragma unroll
  for (uint32_t other = 1; other < 8; other *= 2) {
    most = larger_of(most, shuffle_xor(most, other));
  }
  const BytesScale scale = bytes_scale(float_of(most));
  const uint32_t word = four_bytes(x, scale);
  return {word, dot4(word, 0x01010101u, 0), scale.scale};
}

/// The sum of a run as products with offsets take it. `sum`: of its bytes.
INFER_DEVICE float negative_sum(float scale, int32_t sum) {
  return -(scale * static_cast<float>(sum));
}

/// Of `elements` neighbours, 16 or 32, in the lanes that have them.
INFER_DEVICE int32_t sum_of_run(int32_t sum, uint32_t elements) {
  sum += shuffle_xor(sum, 1);
  sum += shuffle_xor(sum, 2);
  if (elements == 32) sum += shuffle_xor(sum, 4);
  return sum;
}

}  // namespace infer::cuda
