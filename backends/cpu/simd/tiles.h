// Products of sixteen columns at once, for processors that multiply matrices in registers of their
// own
// (`Tiles`, avx512/amx.h). Sums of products of bytes are exact, so the results are those of rows.h.
//
// The vectors of Codes are such a matrix as they are: a row for each four weights, and in it four
// bytes for each row of the model's matrix. A panel's columns are another, with a row for each
// column.
#pragma once

#include "backends/cpu/simd/rows.h"

namespace infer::cpu {
namespace {

constexpr int kTileColumns = 16;
/// A product takes up to two sums of each column.
constexpr int kTileSums = 2 * kTileColumns;

/// 32 bytes of each of kTileColumns columns, one after another, and room for kTileSums.
struct TileColumns {
  const int8_t* q;
  Ints* sums;
};

/// Vectors of an Ints.
constexpr int kTileVectors = sizeof(Ints) / sizeof(I);

// What each tile holds. The second and fourth are pairs, one for each vector.
constexpr int kColumnsTile = 0;  // 32 weights of every column
constexpr int kCodesTile = 1;    // 32 weights of a vector's rows
constexpr int kSumsTile = 3;
constexpr int kHalfColumnsTile = 5;  // 16 weights
constexpr int kHalfCodesTile = 6;
constexpr int kHalfSumsTile = 7;

constexpr TileShapes kTileShapes = [] {
  TileShapes shapes;
  const auto set = [&](int tile, int rows, int row_bytes) {
    shapes.rows[tile] = static_cast<uint8_t>(rows);
    shapes.row_bytes[tile] = static_cast<uint16_t>(row_bytes);
  };
  set(kColumnsTile, kTileColumns, 32);
  set(kHalfColumnsTile, kTileColumns, 16);
  set(kHalfCodesTile, 4, sizeof(I));
  set(kHalfSumsTile, kTileColumns, sizeof(I));
  for (int i = 0; i < 2; ++i) {
    set(kCodesTile + i, 8, sizeof(I));
    set(kSumsTile + i, kTileColumns, sizeof(I));
  }
  return shapes;
}();

/// Tiles of these shapes while it lives.
class TilesInUse {
 public:
  TilesInUse() { Tiles::begin(kTileShapes); }
  ~TilesInUse() { Tiles::end(); }
  TilesInUse(const TilesInUse&) = delete;
  TilesInUse& operator=(const TilesInUse&) = delete;
};

/// What `dot` returns for one column, by column.
struct TileDots {
  const Ints* sums;
  [[gnu::always_inline]] Ints operator()(int64_t c) const { return sums[c]; }
};
struct TileHalves {
  const Ints* sums;
  [[gnu::always_inline]] HalfSums operator()(int64_t c) const {
    return {sums[c], sums[kTileColumns + c]};
  }
};
struct TileSplit {
  const Ints* sums;
  [[gnu::always_inline]] Ints operator()(int64_t c) const {
    return sums[c] + (sums[kTileColumns + c] << 5);
  }
};

template <int kCodes, int kSums, int kColumns>
[[gnu::always_inline]] inline void tile_product(const Ints* codes, Ints* sums, int vector) {
  const int64_t at = vector * int64_t{sizeof(I)};
  Tiles::load<kCodes>(reinterpret_cast<const std::byte*>(codes) + at, sizeof(Ints));
  Tiles::zero<kSums>();
  Tiles::multiply<kSums, kColumns, kCodes>();
  Tiles::store<kSums>(reinterpret_cast<std::byte*>(sums) + at, sizeof(Ints));
}

template <int kMax>
[[gnu::always_inline]] inline TileDots dot(const Codes<kMax>& codes, const TileColumns& x) {
  Tiles::load<kColumnsTile>(x.q, 32);
  tile_product<kCodesTile, kSumsTile, kColumnsTile>(codes.v, x.sums, 0);
  if constexpr (kTileVectors == 2) {
    tile_product<kCodesTile + 1, kSumsTile + 1, kColumnsTile>(codes.v, x.sums, 1);
  }
  return {x.sums};
}

template <int kMax>
[[gnu::always_inline]] inline TileSplit dot(const SplitCodes<Codes<kMax>>& codes,
                                            const TileColumns& x) {
  dot(codes.low, x);
  dot(codes.high, TileColumns{x.q, x.sums + kTileColumns});
  return {x.sums};
}

template <int kMax>
[[gnu::always_inline]] inline TileHalves dot(const Codes<kMax>& codes, const TileColumns& x,
                                             Apart) {
  for (int half = 0; half < 2; ++half) {
    Tiles::load<kHalfColumnsTile>(x.q + half * 16, 32);
    for (int vector = 0; vector < kTileVectors; ++vector) {
      tile_product<kHalfCodesTile, kHalfSumsTile, kHalfColumnsTile>(
          codes.v + half * 4, x.sums + half * kTileColumns, vector);
    }
  }
  return {x.sums};
}

template <int kMax, int kBits>
[[gnu::always_inline]] inline TileHalves dot(const Codes<kMax>& codes, const TileColumns& x,
                                             const HalfScales<kBits>&) {
  return dot(codes, x, Apart{});
}

/// As many_columns. The sums of the next sixteen columns are on their way while those before are
/// scaled and added, which other parts of the core do.
template <typename W>
[[gnu::noinline]] void many_columns_in_tiles(const SideBySide& groups, int64_t k,
                                             const Panel& panel) {
  const int64_t columns = panel.columns;
  const int64_t whole = columns / kTileColumns;  // tiles
  const int64_t rest = columns % kTileColumns;
  const TilesInUse in_use;
  alignas(64) Ints room[2][kTileSums];
  alignas(64) int8_t last[kTileColumns * 32] = {};  // the columns that fill no tile, and zeros
  for_each_part<W, 1>(
      groups, k, panel,
      [&](const typename W::Sub& sub, const PanelChunk& x, float* sums)
          __attribute__((always_inline)) {
            if (rest > 0) {
              __builtin_memcpy(last, x.q(whole * kTileColumns), static_cast<size_t>(rest) * 32);
            }
            const auto products = [&](int64_t tile) __attribute__((always_inline)) {
              return sub.product(
                  TileColumns{tile < whole ? x.q(tile * kTileColumns) : last, room[tile % 2]});
            };
            const typename W::Sub scales = sub;  // what add() needs of it stays in registers
            const int64_t tiles = whole + (rest > 0 ? 1 : 0);
            auto dots = products(0);
            for (int64_t tile = 0; tile < tiles; ++tile) {
              const auto now = dots;
              if (tile + 1 < tiles) dots = products(tile + 1);
              const int64_t first = tile * kTileColumns;
              const int64_t count = tile < whole ? kTileColumns : rest;
              for (int64_t c = 0; c < count; ++c) {
                float* at = sums + (first + c) * kR;
                const auto dots = now(c) + scales.start(x, first + c);
                scales.add(Floats::load(at), dots, x, first + c).store(at);
              }
            }
          });
}

/// A tile with fewer columns takes as long as a full one.
constexpr int64_t kWorthTiles = 12;

template <typename W>
void some_columns(const SideBySide& groups, int64_t k, const Panel& panel) {
  if (panel.columns < kWorthTiles) {
    many_columns<W, 1>(groups, k, panel);
  } else {
    many_columns_in_tiles<W>(groups, k, panel);
  }
}

template <typename W>
constexpr RowKernel tiled_row_kernel() {
  return {W::kType, kR, clean<multiply_groups<W, some_columns<W>>>};
}

}  // namespace
}  // namespace infer::cpu
