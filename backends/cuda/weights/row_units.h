// Units of weights in shared memory, from which a lane reads all of a row in a tile. Included after
// the header of a type.
//
// What the lanes (g, t) have as fragments are quarters of rows g and g + 8. Here 32 lanes have 16
// rows in a pair of tiles: lane (g, t) the row g + 8 (t / 2) in the tile t mod 2. It reads the four
// quarters one after the other.
//
// In which order the 16 bytes of lanes lie within a chunk of 512 is chosen so that neither the
// copies (8 lanes at a time) nor the reads (8 lanes of 16 bytes, 16 of 8, 32 of 4) meet in a bank:
// the quarters t of all g lie together, in an order of their own (slot()), and chunks that
// are read together have orders that differ (turned()).
#pragma once

#include "backends/cuda/weights/shared_units.h"

namespace infer::cuda::INFER_TYPE {

INFER_DEVICE uint32_t half_of_rows() { return lane() % 4 / 2; }
INFER_DEVICE uint32_t tile_of_pair() { return lane() % 2; }

/// What g is combined with in the order of chunk `c` of codes.
INFER_DEVICE constexpr uint32_t turned(uint32_t c) {
  if (Weights::kWords == 1 || (Weights::kWords == 3 && c >= Weights::kTiles)) return 0;
  return Weights::kWords == 4 ? c % 2 * 4 + c / 2 % 2 * 2 : c % 2 * 4;
}

/// Which of the 32 places the 16 bytes of lane (g, t) have in a chunk that is not turned.
INFER_DEVICE uint32_t slot(uint32_t g, uint32_t t) { return t * 8 + (g ^ (2 * t)); }

/// Where copy_units() puts the lane's 16 bytes of a chunk, so that RowPlace finds them.
struct RowCopies {
  SharedPtr<uint32_t> own, linear;
  /// Words from there to the lane's place in chunks that are turned by 4, and by 2.
  uint32_t by_four, by_two;

  INFER_DEVICE explicit RowCopies(const SharedPtr<uint32_t>& words)
      : own(kept(words + slot(lane() / 4, lane() % 4) * 4)),
        linear(kept(words + lane() * 4)),
        by_four((lane() / 4 ^ lane() % 4 * 2) / 4 == 0 ? 16u : 0u - 16u),
        by_two((lane() / 4 ^ lane() % 4 * 2) / 2 % 2 == 0 ? 8u : 0u - 8u) {}

  INFER_DEVICE SharedPtr<uint32_t> operator()(uint32_t plane, uint32_t chunk) const {
    if (Weights::lane_bytes(plane) != 16) return linear;
    const uint32_t turn = plane == 0 ? turned(chunk) : 0;
    const uint32_t further = (turn / 4 != 0 ? by_four : 0) + (turn % 4 != 0 ? by_two : 0);
    return own + static_cast<int32_t>(further);
  }
};

/// Where the lane's row is in the first pair of tiles of kUnits units in shared memory: words.
template <uint32_t kUnits>
struct RowPlace {
  SharedPtr<uint32_t> words;
  uint32_t codes;   ///< its first quarter
  uint32_t thirds;  ///< that quarter's third word
  uint32_t bits;    ///< that quarter's single bits
  SharedPtr<uint32_t> scales[2];

  INFER_DEVICE explicit RowPlace(const SharedPtr<uint32_t>& words)
      : words(kept(words)), codes(0), thirds(0), bits(0), scales{words, words} {
    const uint32_t g = lane() / 4;
    const uint32_t own = tile_of_pair() * 2 + half_of_rows();
    const uint32_t place = Weights::kWords == 3 ? own * 2 : own * Weights::kWords;
    const uint32_t chunk = place / 4;
    codes = kept(chunk * 128 + (g ^ turned(chunk)) * 4 + place % 4);
    if (Weights::kWords == 3) thirds = Weights::kTiles * 128 + g * 4 + own;
    uint32_t at = kUnits * Weights::unit_bytes(0) / 4;
    if (Weights::kBits) {
      bits = at + g * 4 + tile_of_pair() * (Weights::kTiles == 1 ? 32 : 1);
      at += kUnits * Weights::unit_bytes(1) / 4;
    }
#pragma unroll
    for (uint32_t i = Weights::kFirstScales; i < Weights::kPlanes; ++i) {
      const uint32_t unit = Weights::kTiles == 1 ? tile_of_pair() : 0;
      scales[i - Weights::kFirstScales] =
          words + (at + (g * Weights::group_bytes(i) + unit * Weights::unit_bytes(i)) / 4);
      at += kUnits * Weights::unit_bytes(i) / 4;
    }
  }

  /// Quarter t of the row, `at` words further, in the pair of tiles that begins with tile `tile`.
  INFER_DEVICE RowWords<Weights::kWords> load(uint32_t at, uint32_t tile, uint32_t t) const {
    RowWords<Weights::kWords> row;
    row.bits = 0;
    const uint32_t of_codes = ((at + codes) ^ (t * 8)) + t * 32 +
                              word_place(Weights::kWords, Weights::kTiles, tile, 0, 0) * 32;
    if constexpr (Weights::kWords == 1) {
      row.word[0] = words[of_codes];
    } else if constexpr (Weights::kWords == 4) {
      const uint4 four = load_shared<uint4>(words, of_codes);
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) row.word[i] = part_of(four, i);
    } else {
      const uint2 two = load_shared<uint2>(words, of_codes);
      row.word[0] = two.x;
      row.word[1] = two.y;
      if constexpr (Weights::kWords == 3)
        row.word[2] = words[((at + thirds) ^ (t * 8)) + tile * 64 + t * 32];
    }
    if constexpr (Weights::kBits) {
      const uint32_t of_bits = Weights::kTiles == 1 ? at + bits + tile * 32 + t
                                                    : ((at + bits) ^ (t * 8)) + tile + t * 32;
      row.bits = words[of_bits] >> (4 * half_of_rows());
    }
    return row;
  }

  /// Its scales in a unit; of units of one tile, in the pair that begins with `unit`.
  template <typename Type = Weights>
  INFER_DEVICE typename Type::Scales load_scales(uint32_t at, uint32_t unit) const {
    const SharedPlace::Plane planes[2] = {{scales[0], at * 4}, {scales[1], at * 4}};
    if constexpr (requires { Type::load_row_scales(planes, unit, 0u); }) {
      return Type::load_row_scales(planes, unit, half_of_rows());
    } else {
      return Type::load_scales(planes, unit);
    }
  }
};

}  // namespace infer::cuda::INFER_TYPE
