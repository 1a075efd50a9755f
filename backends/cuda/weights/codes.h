// What types of the fragment layout have in common: codes of the forms of packing.h, and scales.
#pragma once

#include "backends/cuda/weights/fragments.h"

namespace infer::cuda {

/// Byte i of a word as a float, plus 2^23.
INFER_DEVICE float raised_byte(uint32_t word, uint32_t i) {
  return float_of(permute(word, 0x4b000000u, 0x7440u | i));
}
inline constexpr float kRaised = 8388608.0f;

INFER_DEVICE float low_half(uint32_t word) { return half_of(word & 0xffffu); }
INFER_DEVICE float high_half(uint32_t word) { return half_of(word >> 16); }

/// 16 bytes of scales of each of two rows.
struct TwoHeads {
  uint4 head[2];

  INFER_DEVICE uint4 of_row(uint32_t h) const {
    return {h == 0 ? head[0].x : head[1].x, h == 0 ? head[0].y : head[1].y,
            h == 0 ? head[0].z : head[1].z, h == 0 ? head[0].w : head[1].w};
  }
};
template <typename Plane>
INFER_DEVICE TwoHeads two_heads(const Plane& at, uint32_t unit) {
  return {{plane_part<uint4>(at, unit * 256), plane_part<uint4>(at, unit * 256 + 16)}};
}
/// What of_row(h) needs.
template <typename Plane>
INFER_DEVICE TwoHeads head_of_row(const Plane& at, uint32_t unit, uint32_t h) {
  const uint4 head = plane_part<uint4>(at, unit * 256 + 16 * h);
  return {{head, head}};
}

/// Bit `bit` of every byte, moved to bit `to`.
INFER_DEVICE uint32_t bit_of_bytes(uint32_t word, uint32_t bit, uint32_t to) {
  const uint32_t moved = bit <= to ? word << (to - bit) : word >> (bit - to);
  return moved & (0x01010101u << to);
}

/// Words::pairs as unsigned bytes: those of the second product are 16 times the code.
INFER_DEVICE void unsigned_pairs(const RowWords<2>& row, uint32_t (&q)[4]) {
#pragma unroll
  for (uint32_t j = 0; j < 2; ++j) {
    q[j] = row.word[j] & 0x0f0f0f0fu;
    q[2 + j] = row.word[j] & 0xf0f0f0f0u;
  }
}
/// Words::pairs with a fifth bit.
INFER_DEVICE void fives(const RowWords<2>& row, uint32_t (&q)[4]) {
#pragma unroll
  for (uint32_t j = 0; j < 2; ++j) {
    q[j] = (row.word[j] & 0x0f0f0f0fu) | bit_of_bytes(row.bits, j, 4);
    q[2 + j] = ((row.word[j] >> 4) & 0x0f0f0f0fu) | bit_of_bytes(row.bits, 2 + j, 4);
  }
}

/// Sixteen bytes by code.
struct Levels {
  uint32_t table[4];
};
/// engine/quant/iq4_levels.h
INFER_DEVICE constexpr Levels iq4_levels() {
  return {{0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u}};
}
/// engine/quant/fp4_levels.h
INFER_DEVICE constexpr Levels fp4_levels() {
  return {{0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu}};
}
/// Words::runs: the bytes of the codes in a table.
INFER_DEVICE void table_runs(const RowWords<2>& row, const Levels& levels, uint32_t (&q)[4]) {
#pragma unroll
  for (uint32_t j = 0; j < 2; ++j) {
    const uint32_t w = row.word[j];
    const uint32_t low = w & 0x77777777u;
    const uint32_t upper = 0x32103210u | ((w >> 1) & 0x44444444u);
#pragma unroll
    for (uint32_t m = 0; m < 2; ++m) {
      const uint32_t first = permute(levels.table[0], levels.table[1], low >> (16 * m));
      const uint32_t second = permute(levels.table[2], levels.table[3], low >> (16 * m));
      q[2 * m + j] = permute(first, second, upper >> (16 * m));
    }
  }
}

/// Two float16 scales of a row, of two rows.
INFER_DEVICE void half_scales(const uint2& words, uint32_t row, float (&scale)[2]) {
  const uint32_t own = part_of(words, row);
  scale[0] = low_half(own);
  scale[1] = high_half(own);
}
/// Scale and offset of two runs of a row, of two rows; values are scale · code + offset.
INFER_DEVICE void half_pairs(const uint4& words, uint32_t row, float (&scale)[2],
                             float (&least)[2]) {
  const uint32_t own[2] = {row == 0 ? words.x : words.z, row == 0 ? words.y : words.w};
#pragma unroll
  for (uint32_t i = 0; i < 2; ++i) {
    scale[i] = low_half(own[i]);
    least[i] = -high_half(own[i]);
  }
}

/// Types with two float16 scales of each row.
struct HalfScalesType : OrdinaryType {
  static constexpr uint32_t kScaleBytes = 64;
  using Scales = uint2;
  template <typename Plane>
  INFER_DEVICE static Scales load_scales(const Plane* at, uint32_t unit) {
    return plane_part<uint2>(at[0], unit * kScaleBytes);
  }
  INFER_DEVICE static void row_scales(const Scales& scales, uint32_t, uint32_t h, float (&scale)[2],
                                      float (&)[2]) {
    half_scales(scales, h, scale);
  }
};
/// Types with scale and offset, float16, of both runs of each row.
struct HalfPairsType : OrdinaryType {
  static constexpr bool kUnsigned = true;
  static constexpr bool kLeast = true;
  static constexpr uint32_t kScaleBytes = 128;
  using Scales = uint4;
  template <typename Plane>
  INFER_DEVICE static Scales load_scales(const Plane* at, uint32_t unit) {
    return plane_part<uint4>(at[0], unit * kScaleBytes);
  }
};
/// Q4_K and Q5_K.
struct HeadsType : OrdinaryType {
  static constexpr uint32_t kTiles = 4;
  static constexpr bool kUnsigned = true;
  static constexpr bool kLeast = true;
  static constexpr uint32_t kScaleBytes = 256;
  using Scales = TwoHeads;
  template <typename Plane>
  INFER_DEVICE static Scales load_scales(const Plane* at, uint32_t unit) {
    return two_heads(at[0], unit);
  }
  template <typename Plane>
  INFER_DEVICE static Scales load_row_scales(const Plane* at, uint32_t unit, uint32_t h) {
    return head_of_row(at[0], unit, h);
  }
};

/// The 6-bit scales and offsets of Q4_K and Q5_K (engine/quant/k_scales.h), a byte each.
struct KScales {
  uint32_t scale[2];
  uint32_t least[2];
};
INFER_DEVICE KScales k_scales(const uint4& head) {
  KScales k;
  k.scale[0] = head.y & 0x3f3f3f3fu;
  k.least[0] = head.z & 0x3f3f3f3fu;
  k.scale[1] = (head.w & 0x0f0f0f0fu) | ((head.y >> 2) & 0x30303030u);
  k.least[1] = ((head.w >> 4) & 0x0f0f0f0fu) | ((head.z >> 2) & 0x30303030u);
  return k;
}
/// Of tile `tile` of a block; `second`: what the codes of the second product are larger by.
INFER_DEVICE void k_scales_of(const uint4& head, uint32_t tile, float second, float (&scale)[2],
                              float (&least)[2]) {
  const KScales k = k_scales(head);
  const float d = low_half(head.x);
  const float dmin = high_half(head.x);
#pragma unroll
  for (uint32_t m = 0; m < 2; ++m) {
    const uint32_t byte = tile % 2 * 2 + m;
    const float own = m == 0 ? d : d * second;
    scale[m] = fused(raised_byte(k.scale[tile / 2], byte), own, -kRaised * own);
    least[m] = fused(raised_byte(k.least[tile / 2], byte), dmin, -kRaised * dmin);
  }
}

}  // namespace infer::cuda
