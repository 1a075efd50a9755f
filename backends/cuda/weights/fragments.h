// Weights of the fragment layout (packing.h). A file of this folder defines, in a namespace named
// as the type, a struct `Weights`:
//   kTiles       tiles of a unit: what load() takes at once
//   kRun         elements that share a scale: 32 or 16
//   kUnsigned    codes are unsigned bytes
//   kLeast       value = scale · code − least, else value = scale · code; scale and least are those
//                of the element's row and run
//   kUnit        what the sums have to be multiplied with in the end: codes may be larger than
//   levels
//                by a power of two
//   kParts       2: a level is code 0 · kFirst + code 1 · kSecond; 1: it is code 0
//   kPlanes; unit_bytes, lane_bytes, group_bytes   by plane: bytes of a unit; of those the bytes of
//   a
//                lane, or of the four lanes of a group (the other one is 0)
//   Raw          what a lane has of a unit
//   load(place, unit)                of a Place, a CachedPlace or an AskedPlace
//   load_row(place, unit, h)         some types: the same with the scales of row g + 8h alone
//   codes(raw, tile, part, a)         registers of A: a[4m + r] is register r of product m
//   row_scales(raw, tile, h, scale, least)   of row g + 8h, by run
//   values(raw, tile, v)              in the arithmetic of engine/quant/<type>.h: v[4m + r][byte]
#pragma once

#include "backends/cuda/device/math.h"
#include "backends/cuda/device/memory.h"

namespace infer::cuda {

/// Where a lane's part of the first unit of a row of tiles is, by plane.
struct Place {
  uint64_t plane[4];
};
/// The same for kernels of many columns. Several blocks read the same weights, and only the parts
/// that are used are loaded.
struct CachedPlace {
  struct Plane {
    uint64_t at;
  } plane[4];
};
INFER_DEVICE CachedPlace cached(const Place& place) {
  return {{{place.plane[0]}, {place.plane[1]}, {place.plane[2]}, {place.plane[3]}}};
}

/// The same for asking for the weights: load() returns nothing of use then.
struct AskedPlace {
  struct Plane {
    uint64_t at;
  } plane[4];
};
INFER_DEVICE AskedPlace asked(const Place& place) {
  return {{{place.plane[0]}, {place.plane[1]}, {place.plane[2]}, {place.plane[3]}}};
}

/// `offsets`: of planes 1 and up, from w in units of 16 bytes. `tile`: the row of tiles, over all
/// matrices, each of `units` units.
template <typename Weights>
INFER_DEVICE Place place_of(uint64_t w, const uint32_t (&offsets)[4], uint32_t tile,
                            uint32_t units) {
  Place place{};
#pragma unroll
  for (uint32_t p = 0; p < Weights::kPlanes; ++p) {
    place.plane[p] = w + (p == 0 ? 0 : uint64_t{offsets[p - 1]} * 16) +
                     uint64_t{tile} * units * Weights::unit_bytes(p) +
                     lane() * Weights::lane_bytes(p) + lane() / 4 * Weights::group_bytes(p);
  }
  return place;
}

template <typename Weights>
INFER_DEVICE void advance(Place& place, uint32_t units) {
#pragma unroll
  for (uint32_t p = 0; p < Weights::kPlanes; ++p) {
    place.plane[p] += uint64_t{units} * Weights::unit_bytes(p);
  }
}

template <typename V>
INFER_DEVICE V plane_part(uint64_t at, uint32_t offset) {
  return load_once<V>(Global<const uint8_t>(at), offset);
}
template <typename V>
INFER_DEVICE V plane_part(const CachedPlace::Plane& plane, uint32_t offset) {
  return load_constant<V>(Global<const uint8_t>(plane.at), offset);
}
template <typename V>
INFER_DEVICE V plane_part(const AskedPlace::Plane& plane, uint32_t offset) {
  ask_for(Global<const uint8_t>(plane.at), offset, sizeof(V));
  return V{};
}

/// What row_scales() of row g + 8h needs is right; of some types the scales of the other row are
/// not loaded.
template <typename Weights, typename From>
INFER_DEVICE typename Weights::Raw load_of_row(const From& place, uint32_t unit, uint32_t h) {
  if constexpr (requires { Weights::load_row(place, unit, h); }) {
    return Weights::load_row(place, unit, h);
  } else {
    return Weights::load(place, unit);
  }
}

/// Byte i of a word as a float, plus 2^23.
INFER_DEVICE float raised_byte(uint32_t word, uint32_t i) {
  return float_of(permute(word, 0x4b000000u, 0x7440u | i));
}
inline constexpr float kRaised = 8388608.0f;

INFER_DEVICE float low_half(uint32_t word) { return half_of(word & 0xffffu); }
INFER_DEVICE float high_half(uint32_t word) { return half_of(word >> 16); }

/// Element i of a vector.
INFER_DEVICE uint32_t part_of(const uint4& v, uint32_t i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}
INFER_DEVICE uint32_t part_of(const uint2& v, uint32_t i) { return i == 0 ? v.x : v.y; }

/// Of 16 rows.
template <typename Weights>
INFER_DEVICE constexpr uint32_t bytes_of_unit() {
  uint32_t bytes = 0;
  for (uint32_t p = 0; p < Weights::kPlanes; ++p) bytes += Weights::unit_bytes(p);
  return bytes;
}

/// Of two vectors the one of a row.
INFER_DEVICE uint4 of_row(const uint4 (&both)[2], uint32_t row) {
  return {row == 0 ? both[0].x : both[1].x, row == 0 ? both[0].y : both[1].y,
          row == 0 ? both[0].z : both[1].z, row == 0 ? both[0].w : both[1].w};
}

/// Bit `bit` of every byte, moved to bit `to`.
INFER_DEVICE uint32_t bit_of_bytes(uint32_t word, uint32_t bit, uint32_t to) {
  const uint32_t moved = bit <= to ? word << (to - bit) : word >> (bit - to);
  return moved & (0x01010101u << to);
}

/// Words::pairs as unsigned bytes: those of the second product are 16 times the code.
INFER_DEVICE void unsigned_pairs(const uint4& words, uint32_t (&a)[8]) {
#pragma unroll
  for (uint32_t r = 0; r < 4; ++r) {
    const uint32_t w = part_of(words, r);
    a[r] = w & 0x0f0f0f0fu;
    a[4 + r] = w & 0xf0f0f0f0u;
  }
}
/// Words::pairs with a fifth bit.
INFER_DEVICE void fives(const uint4& words, uint32_t bits, uint32_t (&a)[8]) {
#pragma unroll
  for (uint32_t r = 0; r < 4; ++r) {
    const uint32_t w = part_of(words, r);
    a[r] = (w & 0x0f0f0f0fu) | bit_of_bytes(bits, r, 4);
    a[4 + r] = ((w >> 4) & 0x0f0f0f0fu) | bit_of_bytes(bits, 4 + r, 4);
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
INFER_DEVICE void table_runs(const uint4& words, const Levels& levels, uint32_t (&a)[8]) {
#pragma unroll
  for (uint32_t r = 0; r < 4; ++r) {
    const uint32_t w = part_of(words, r);
    const uint32_t low = w & 0x77777777u;
    const uint32_t upper = 0x32103210u | ((w >> 1) & 0x44444444u);
#pragma unroll
    for (uint32_t m = 0; m < 2; ++m) {
      const uint32_t first = permute(levels.table[0], levels.table[1], low >> (16 * m));
      const uint32_t second = permute(levels.table[2], levels.table[3], low >> (16 * m));
      a[4 * m + r] = permute(first, second, upper >> (16 * m));
    }
  }
}

/// Byte i of a register of codes.
template <bool kUnsigned>
INFER_DEVICE float code_of(uint32_t word, uint32_t i) {
  const uint32_t byte = (word >> (8 * i)) & 255;
  return static_cast<float>(kUnsigned ? static_cast<int32_t>(byte)
                                      : static_cast<int32_t>(byte << 24) >> 24);
}

/// The scales of rows g and g + 8, by run.
template <typename Weights, uint32_t kRuns>
INFER_DEVICE void scales_of(const typename Weights::Raw& raw, uint32_t tile,
                            float (&scale)[2][kRuns], float (&least)[2][kRuns]) {
  Weights::row_scales(raw, tile, 0, scale[0], least[0]);
  Weights::row_scales(raw, tile, 1, scale[1], least[1]);
}

/// values() of types whose codes are their levels.
template <typename Weights>
INFER_DEVICE void values_of(const typename Weights::Raw& raw, uint32_t tile, float (&v)[8][4]) {
  uint32_t a[8];
  float scale[2][64 / Weights::kRun];
  float least[2][64 / Weights::kRun];
  Weights::codes(raw, tile, 0, a);
  scales_of<Weights>(raw, tile, scale, least);
#pragma unroll
  for (uint32_t i = 0; i < 8; ++i) {
    const uint32_t run = Weights::kRun == 32 ? i / 4 : i / 4 * 2 + i % 4 / 2;
#pragma unroll
    for (uint32_t byte = 0; byte < 4; ++byte) {
      const float level = code_of<Weights::kUnsigned>(a[i], byte) * Weights::kUnit;
      const float value = scale[i % 2][run] * level;
      v[i][byte] = Weights::kLeast ? value - least[i % 2][run] : value;
    }
  }
}

/// What most types have in common.
struct OrdinaryWeights {
  static constexpr uint32_t kTiles = 1;
  static constexpr uint32_t kRun = 32;
  static constexpr bool kUnsigned = false;
  static constexpr bool kLeast = false;
  static constexpr float kUnit = 1.0f;
  static constexpr uint32_t kParts = 1;
  static constexpr float kFirst = 1.0f;
  static constexpr float kSecond = 0.0f;
};

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
