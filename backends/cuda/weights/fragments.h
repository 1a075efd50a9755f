// Weights of the fragment layout (packing.h). A file of quant/ defines, in a namespace named as the
// type, `Weights` = FragmentWeights<Type>, of a struct Type:
//   kTiles       tiles of a unit: what load() takes at once
//   kWords       words of codes that a lane has of a row in a tile (weights/words.h)
//   kBits        one bit of each code lies in a word of its own
//   kRun         elements that share a scale: 32 or 16
//   kUnsigned    codes are unsigned bytes
//   kLeast       value = scale · code − least, else value = scale · code; scale and least are those
//                of the element's row and run
//   kUnit        what the sums have to be multiplied with in the end: codes may be larger than
//                levels by a power of two
//   kParts       2: a level is code 0 · kFirst + code 1 · kSecond; 1: it is code 0
//   kScaleBytes, kMoreScaleBytes   of a unit, in the one or two planes of scales; a group of four
//                lanes has an eighth
//   Scales       what a lane has of them
//   load_scales(planes, unit)          `planes`: those of scales, of a Place or its like
//   load_row_scales(planes, unit, h)   some types: what row_scales() of row g + 8h needs
//   codes(words, part, q)              q[2m + j]: of a row, registers 2j of A of product m (of rows
//                                      g + 8: 2j + 1)
//   row_scales(scales, tile, h, scale, least)   of row g + 8h, by run
//   level(words, i, byte)              of types in two parts: the level of byte `byte` of q[i]
#pragma once

#include "backends/cuda/device/math.h"
#include "backends/cuda/device/memory.h"
#include "backends/cuda/weights/words.h"

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

/// Element i of a vector.
INFER_DEVICE uint32_t part_of(const uint4& v, uint32_t i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}
INFER_DEVICE uint32_t part_of(const uint2& v, uint32_t i) { return i == 0 ? v.x : v.y; }

/// What most types have in common.
struct OrdinaryType {
  static constexpr uint32_t kTiles = 1;
  static constexpr uint32_t kWords = 2;
  static constexpr bool kBits = false;
  static constexpr uint32_t kMoreScaleBytes = 0;
  static constexpr uint32_t kRun = 32;
  static constexpr bool kUnsigned = false;
  static constexpr bool kLeast = false;
  static constexpr float kUnit = 1.0f;
  static constexpr uint32_t kParts = 1;
  static constexpr float kFirst = 1.0f;
  static constexpr float kSecond = 0.0f;
};

/// Byte i of a register of codes.
template <bool kUnsigned>
INFER_DEVICE float code_of(uint32_t word, uint32_t i) {
  const uint32_t byte = (word >> (8 * i)) & 255;
  return static_cast<float>(kUnsigned ? static_cast<int32_t>(byte)
                                      : static_cast<int32_t>(byte << 24) >> 24);
}

/// The codes of a row in a tile, as a lane has them.
template <uint32_t kWords>
struct RowWords {
  uint32_t word[kWords];
  uint32_t bits;  ///< bit 2m + j of byte i: of byte i of register 2m + j; anything above
};

template <typename Type>
struct FragmentWeights : Type {
  static constexpr uint32_t kTiles = Type::kTiles;
  static constexpr uint32_t kWords = Type::kWords;
  static constexpr uint32_t kRuns = 64 / Type::kRun;
  /// Of uint4 of codes of a unit that a lane has: 16 bytes of each lane are a chunk of a plane.
  static constexpr uint32_t kChunks = kTiles * kWords / 2;
  /// Planes: codes, single bits, scales.
  static constexpr uint32_t kFirstScales = Type::kBits ? 2 : 1;
  static constexpr uint32_t kPlanes = kFirstScales + (Type::kMoreScaleBytes > 0 ? 2 : 1);
  /// Of 16 rows.
  INFER_DEVICE static constexpr uint32_t unit_bytes(uint32_t plane) {
    return plane == 0              ? kChunks * 512
           : plane < kFirstScales  ? kTiles * 128
           : plane == kFirstScales ? Type::kScaleBytes
                                   : Type::kMoreScaleBytes;
  }
  /// From a lane to the next; of scales, 0: there it is from four lanes to the next four.
  INFER_DEVICE static constexpr uint32_t lane_bytes(uint32_t plane) {
    return plane == 0 ? 16 : plane < kFirstScales ? kTiles * 4 : 0;
  }
  INFER_DEVICE static constexpr uint32_t group_bytes(uint32_t plane) {
    return plane < kFirstScales ? 0 : unit_bytes(plane) / 8;
  }

  /// What a lane has of a unit.
  struct Raw {
    uint4 chunks[kChunks];
    typename Type::Scales scales;
    uint32_t bits[Type::kBits ? kTiles : 1];  ///< 4h + 2m + j of byte i: of row g + 8h
  };
  template <typename From>
  INFER_DEVICE static Raw load(const From& at, uint32_t unit) {
    Raw raw{};
#pragma unroll
    for (uint32_t c = 0; c < kChunks; ++c) {
      raw.chunks[c] = plane_part<uint4>(at.plane[0], unit * unit_bytes(0) + c * 512);
    }
    if constexpr (Type::kBits && kTiles == 1) {
      raw.bits[0] = plane_part<uint32_t>(at.plane[1], unit * unit_bytes(1));
    } else if constexpr (Type::kBits) {
      const uint4 bits = plane_part<uint4>(at.plane[1], unit * unit_bytes(1));
#pragma unroll
      for (uint32_t tile = 0; tile < kTiles; ++tile) raw.bits[tile] = part_of(bits, tile);
    }
    raw.scales = Type::load_scales(&at.plane[kFirstScales], unit);
    return raw;
  }
  INFER_DEVICE static RowWords<kWords> row_words(const Raw& raw, uint32_t tile, uint32_t h) {
    RowWords<kWords> row;
#pragma unroll
    for (uint32_t i = 0; i < kWords; ++i) {
      const uint32_t place = word_place(kWords, kTiles, tile, h, i);
      row.word[i] = part_of(raw.chunks[place / 4], place % 4);
    }
    row.bits = Type::kBits ? raw.bits[Type::kBits ? tile : 0] >> (4 * h) : 0;
    return row;
  }
  /// Registers of A of both rows: a[4m + r] is register r of product m.
  INFER_DEVICE static void registers(const Raw& raw, uint32_t tile, uint32_t part,
                                     uint32_t (&a)[8]) {
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
      uint32_t q[4];
      Type::codes(row_words(raw, tile, h), part, q);
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) a[2 * i + h] = q[i];
    }
  }
  /// The scales of rows g and g + 8, by run.
  INFER_DEVICE static void scales(const Raw& raw, uint32_t tile, float (&scale)[2][kRuns],
                                  float (&least)[2][kRuns]) {
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
      Type::row_scales(raw.scales, tile, h, scale[h], least[h]);
    }
  }
  /// In the arithmetic of engine/quant/<type>.h: v[4m + r][byte].
  INFER_DEVICE static void values(const Raw& raw, uint32_t tile, float (&v)[8][4]) {
    uint32_t a[8];
    float scale[2][kRuns];
    float least[2][kRuns];
    registers(raw, tile, 0, a);
    scales(raw, tile, scale, least);
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) {
      const uint32_t run = i / 2 * kRuns / 4;
#pragma unroll
      for (uint32_t byte = 0; byte < 4; ++byte) {
        float level;
        if constexpr (Type::kParts == 1) {
          level = code_of<Type::kUnsigned>(a[i], byte) * Type::kUnit;
        } else {
          level = Type::level(row_words(raw, tile, i % 2), i / 2, byte);
        }
        const float value = scale[i % 2][run] * level;
        v[i][byte] = Type::kLeast ? value - least[i % 2][run] : value;
      }
    }
  }
};

/// Of 16 rows.
template <typename Weights>
INFER_DEVICE constexpr uint32_t bytes_of_unit() {
  uint32_t bytes = 0;
  for (uint32_t p = 0; p < Weights::kPlanes; ++p) bytes += Weights::unit_bytes(p);
  return bytes;
}

}  // namespace infer::cuda
