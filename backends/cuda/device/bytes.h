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

/// Four of 32 neighbours: a byte each, and their sum.
struct FourBytes {
  uint32_t word;
  int32_t sum;
  float scale;  ///< of the 32, with no more than 22 bits
};

/// Eight lanes, the first at a multiple of 8, have 32 neighbours.
INFER_DEVICE FourBytes bytes_of_four(const float4& x) {
  const auto larger = [](uint32_t a, uint32_t b) { return a > b ? a : b; };
  uint32_t most_bits = larger(larger(bits_of(magnitude_of(x.x)), bits_of(magnitude_of(x.y))),
                              larger(bits_of(magnitude_of(x.z)), bits_of(magnitude_of(x.w))));
#pragma unroll
  for (uint32_t other = 1; other < 8; other *= 2) {
    most_bits = larger(most_bits, shuffle_xor(most_bits, other));
  }
  const float most = float_of(most_bits);  // NaN if there is one
  const float inverse = most > 1e-30f ? 127.0f / most : 0.0f;
  const auto byte = [&](float value) {
    return static_cast<int32_t>(least_of(most_of(rounded(value * inverse), -127.0f), 127.0f));
  };
  const int32_t q[4] = {byte(x.x), byte(x.y), byte(x.z), byte(x.w)};
  FourBytes four{};
  four.word = (static_cast<uint32_t>(q[0]) & 255) | (static_cast<uint32_t>(q[1]) & 255) << 8 |
              (static_cast<uint32_t>(q[2]) & 255) << 16 | static_cast<uint32_t>(q[3]) << 24;
  four.sum = q[0] + q[1] + q[2] + q[3];
  four.scale = float_of(bits_of(most / 127.0f) & ~3u);
  return four;
}

/// What sums of integers begin with: the bits of 2^23 + 2^22 (weights/fragment_sums.h).
inline constexpr int32_t kRaisedSum = 0x4b400000;
/// −scale · (2^23 + 2^22), which is exact.
INFER_DEVICE float raised_scale(float scale) { return -12582912.0f * scale; }

/// The sum of a run as products with offsets take it: two TF32, negative, which have 22 bits
/// together.
INFER_DEVICE float2 negative_parts(float sum) {
  constexpr uint32_t kBits = 0xffffe000u;
  const float first = float_of(bits_of(-sum) & kBits);
  return {first, float_of(bits_of(-sum - first) & kBits)};
}

/// Of `elements` neighbours, 16 or 32, in the lanes that have them.
INFER_DEVICE int32_t sum_of_run(int32_t sum, uint32_t elements) {
  sum += shuffle_xor(sum, 1);
  sum += shuffle_xor(sum, 2);
  if (elements == 32) sum += shuffle_xor(sum, 4);
  return sum;
}

}  // namespace infer::cuda
