// Products of many columns, for processors that multiply matrices in registers of their own
// (`Tiles`, avx512/amx.h). Sums of products of bytes are exact, so the results are those of rows.h.
//
// The vectors of Codes are such a matrix as they are: a row for each four weights, and in it four
// bytes for each row of the model's matrix. A panel's columns are another, with a row for each
// column. Their product has a row for each column, whose lanes are rows of the model's matrix.
//
// Some parts of a group's rows are decoded once, for all columns. Then a tile's columns meet all of
// these parts, with their sums in registers: to store and scale products takes longer than to make
// them.
#pragma once

#include "backends/cpu/simd/rows.h"

namespace infer::cpu {
namespace {

constexpr int kTileColumns = 16;
/// Vectors of an Ints.
constexpr int kTileVectors = sizeof(Ints) / sizeof(I);

// Tiles. Two of each kind: one is loaded or stored while the other is multiplied.
constexpr int kSumsTile = 0;
constexpr int kColumnsTile = 2;
constexpr int kCodesTile = 4;

/// For products of 32 weights.
constexpr TileShapes kTileShapes = [] {
  TileShapes shapes;
  const auto set = [&](int tile, int rows, int row_bytes) {
    for (int i = tile; i < tile + 2; ++i) {
      shapes.rows[i] = static_cast<uint8_t>(rows);
      shapes.row_bytes[i] = static_cast<uint16_t>(row_bytes);
    }
  };
  set(kSumsTile, kTileColumns, sizeof(I));
  set(kColumnsTile, kTileColumns, 32);
  set(kCodesTile, 8, sizeof(I));
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

/// Codes are 2^kZeroBits too large; below zero: right as they are.
template <typename Sub>
constexpr int kZeroBits = -1;
template <int kMax, int kBits>
constexpr int kZeroBits<Sub32Offset<kMax, kBits>> = kBits;

/// Products of a part of 32 weights: two where codes take two bytes. Halves with scales of their
/// own would take two of half a tile's depth, which are slower than vectors: none.
template <typename Sub>
constexpr int kTileProducts = 0;
template <int kMax, int kBits>
constexpr int kTileProducts<Sub32Offset<kMax, kBits>> = 1;
template <typename Codes>
constexpr int kTileProducts<Sub32With<Codes>> = 1;
template <typename Part>
constexpr int kTileProducts<Sub32With<SplitCodes<Part>>> = 2;

/// The vectors of codes of product `product`.
template <typename Sub>
[[gnu::always_inline]] inline const Ints* codes_of(const Sub& sub, int product) {
  if constexpr (kTileProducts<Sub> == 1) {
    return sub.codes.v;
  } else {
    return product == 0 ? sub.codes.low.v : sub.codes.high.v;
  }
}

/// A part as it is kept for the tiles: codes that were too large become signed bytes.
template <typename Sub>
[[gnu::always_inline]] inline void keep_for_tiles(const Sub& sub, Sub& part) {
  part = sub;
  constexpr int kBits = kZeroBits<Sub>;
  if constexpr (kBits >= 0) {
    // Bits on top keep a byte from borrowing from the next. Of eight bits the first is the sign
    // itself.
    const Ints top = Ints::set(static_cast<int32_t>(0x80808080));
    const Ints zero = Ints::set(0x01010101 * (1 << kBits % 7));
    for (Ints& v : part.codes.v) v = kBits == 7 ? v ^ top : ((v | top) - zero) ^ top;
  }
}

/// Those rows of a part's scales that are in vector `vector`.
struct OfVector {
  int vector;
  [[gnu::always_inline]] F operator()(const Floats& all) const {
    return F::load(reinterpret_cast<const float*>(&all) + vector * F::kWidth);
  }
};

/// What a tile's columns are scaled with in a chunk. Addresses of one register: an operation whose
/// address takes two is split.
class TileFactors {
 public:
  TileFactors(const PanelChunk& x, int64_t column) : d_(x.d(column)), s_(x.s(column)) {}
  [[gnu::always_inline]] const float* d(int64_t c) const { return d_ + c; }
  [[gnu::always_inline]] const float* s(int64_t c) const { return s_ + c; }
  /// Goes on to the next chunk, `bytes` behind.
  [[gnu::always_inline]] void advance(int64_t bytes) {
    d_ += bytes / int64_t{sizeof(float)};
    s_ += bytes / int64_t{sizeof(float)};
    asm("" : "+r"(d_), "+r"(s_));
  }

 private:
  const float* d_;
  const float* s_;
};

/// Adds the products of `count` parts, the first of which is part `first` of the rows, with the
/// columns of a tile, from `column` on, to sums[column][row].
template <typename Sub>
[[gnu::always_inline]] inline void add_tile(const Sub* parts, int64_t count, Panel panel,
                                            int64_t first, int64_t column, int vector,
                                            float* sums) {
  constexpr int kProducts = kTileProducts<Sub>;
  alignas(64) I room[2][kTileColumns];
  F sum[kTileColumns];
  float* const sums_here = sums + column * kR + vector * F::kWidth;
  const int64_t chunk_bytes = Panel::chunk_bytes(panel.columns);
  const PanelChunk first_chunk(panel, first);

  const Sub* loaded = parts;
  const int8_t* q = first_chunk.q(column);
  const auto load = [&]<int kSet>() __attribute__((always_inline)) {
    constexpr int kProduct = kProducts == 1 ? 0 : kSet;
    Tiles::load<kColumnsTile + kSet>(q, 32);
    Tiles::load<kCodesTile + kSet>(reinterpret_cast<const I*>(codes_of(*loaded, kProduct)) + vector,
                                   sizeof(Ints));
    if (kProduct == kProducts - 1 && loaded + 1 < parts + count) {  // else nothing needs it
      ++loaded;
      q += chunk_bytes;
    }
  };
  const auto multiply = []<int kSet>() __attribute__((always_inline)) {
    Tiles::zero<kSumsTile + kSet>();
    Tiles::multiply<kSumsTile + kSet, kColumnsTile + kSet, kCodesTile + kSet,
                    (kZeroBits<Sub> >= 0)>();
  };
  const auto store = [&]<int kSet>() __attribute__((always_inline)) {
    Tiles::store<kSumsTile + kSet>(room[kSet], sizeof(I));
  };
  const Sub* added = parts;
  TileFactors x(first_chunk, column);
  const auto add = [&](const I* dots) __attribute__((always_inline)) {
    const auto scales = added->each(OfVector{vector});
#pragma GCC unroll 16
    for (int c = 0; c < kTileColumns; ++c) {
      const I dot = kProducts == 1 ? dots[c] : room[0][c] + (room[1][c] << 5);
      sum[c] = scales.add(sum[c], dot, x, c);
    }
    ++added;
    x.advance(chunk_bytes);
  };

#pragma GCC unroll 16
  for (int c = 0; c < kTileColumns; ++c) sum[c] = F::load(sums_here + c * kR);
  // Two products a step. Both are loaded before it. While one is multiplied, the sums of the one
  // before are stored, and those before them are scaled.
  const int64_t steps = count * kProducts / 2;
  load.template operator()<0>();
  load.template operator()<1>();
  for (int64_t s = 0; s < steps; ++s) {
    multiply.template operator()<0>();
    load.template operator()<0>();
    if (s > 0) {
      if (kProducts == 1) add(room[0]);
      store.template operator()<1>();
    }
    multiply.template operator()<1>();
    load.template operator()<1>();
    if (s > 0) add(room[1]);
    store.template operator()<0>();
  }
  if (steps > 0) {
    if (kProducts == 1) add(room[0]);
    store.template operator()<1>();
    add(room[1]);
  }
  if (steps * 2 < count * kProducts) {  // one is left, and loaded
    multiply.template operator()<0>();
    store.template operator()<0>();
    add(room[0]);
  }
#pragma GCC unroll 16
  for (int c = 0; c < kTileColumns; ++c) sum[c].store(sums_here + c * kR);
}

/// Parts that are decoded at once: as many as leave the first-level cache room for columns.
template <typename Sub>
constexpr int64_t kTileParts = kTileProducts<Sub> == 1 ? 16 : 8;

/// As many_columns.
template <typename W>
[[gnu::noinline]] void many_columns_in_tiles(const SideBySide& groups, int64_t k,
                                             const Panel& panel) {
  using Sub = typename W::Sub;
  const int64_t in_tiles = panel.columns / kTileColumns * kTileColumns;
  const TilesInUse in_use;
  Sub parts[kTileParts<Sub>];
  int64_t count = 0;
  int64_t first = 0;
  const auto add_tiles = [&](float* sums) {
    for (int64_t c = 0; c < in_tiles; c += kTileColumns) {
      for (int v = 0; v < kTileVectors; ++v) add_tile(parts, count, panel, first, c, v, sums);
    }
    first += count;
    count = 0;
  };
  for_each_part<W, 1>(
      groups, k,
      panel, [&](const Sub& sub, const PanelChunk& x, float* sums) __attribute__((always_inline)) {
        add_columns_from(sub, x, in_tiles, panel.columns, sums);
        keep_for_tiles(sub, parts[count++]);
        if (count == kTileParts<Sub>) add_tiles(sums);
      });
  if (count > 0) add_tiles(groups.sums);
}

/// With fewer columns the parts that are kept cost more than the tiles save.
constexpr int64_t kWorthTiles = 2 * kTileColumns;

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
  if constexpr (kTileProducts<typename W::Sub> == 0) {
    return row_kernel<W>();
  } else {
    return {W::kType, kR, clean<multiply_groups<W, some_columns<W>>>};
  }
}

}  // namespace
}  // namespace infer::cpu
