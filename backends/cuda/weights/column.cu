// Products of weights in the fragment layout (packing.h) with a single column, rounded to bytes;
// included after the header of a type by a generated unit that defines INFER_TYPE.
//
// What takes time is to bring the weights, so instructions are few: tensor cores would multiply
// seven columns more. A lane multiplies the codes of rows g and g + 8 that it would have as a
// fragment with four bytes at a time. The four lanes of a group exchange these sums by pairs of
// tiles, so that each of them gets whole runs: lane t of a group those of row g + 8 (t / 2) and of
// tile t mod 2 of the pair. It scales and adds them as weights/fragment_sums.h has it.
//
// The warps of a block share out K in stretches. Each rounds its stretch of the column itself,
// unless what made the column has done so (rounded_values.h).
#include "backends/cuda/device/column_bytes.h"
#include "backends/cuda/weights/fragment_sums.h"

namespace infer::cuda::INFER_TYPE {

/// What a warp loads at once: whole pairs of tiles.
constexpr uint32_t kPieceUnits = Weights::kTiles == 1 ? 2 : 1;
constexpr uint32_t kPieceTiles = Weights::kTiles * kPieceUnits;
struct Piece {
  typename Weights::Raw raw[kPieceUnits];
};
/// Pieces on their way to a warp.
constexpr uint32_t kPieceBytes = kPieceUnits * bytes_of_unit<Weights>();
constexpr uint32_t kAhead = 2;

/// `left`: units from the piece's first on. Of a pair's second tile that there is not, the first.
INFER_DEVICE Piece load_piece(const Place& place, uint32_t unit, uint32_t left) {
  Piece piece;
#pragma unroll
  for (uint32_t i = 0; i < kPieceUnits; ++i) {
    const uint32_t own = i < left ? unit + i : unit;
    piece.raw[i] = load_of_row<Weights>(place, own, lane() % 4 / 2);
  }
  return piece;
}

/// The column in shared memory, of `chunk` tiles of each warp.
struct Bytes {
  SharedPtr<uint32_t> words;  ///< [tile][lane of four][4]: registers of B of both products
  SharedPtr<float> scales;    ///< [tile][2]
  SharedPtr<float> sums;      ///< [tile][kSumRuns]
};
INFER_DEVICE Bytes bytes_in_shared(uint32_t tiles) {
  return {dynamic_shared<uint32_t>(0, tiles * 16), dynamic_shared<float>(tiles * 64, tiles * 2),
          dynamic_shared<float>(tiles * 72, tiles * kSumRuns)};
}

/// Rounds `count` tiles of the column from `tile` on, to tile `to` of shared memory. Four lanes
/// have 32 neighbours.
INFER_DEVICE void round_tiles(const ProductParams& p, uint32_t from, float factor, const Bytes& x,
                              uint32_t tile, uint32_t count, uint32_t to) {
  const uint32_t m = lane() / 4 % 2;
  const uint32_t part = lane() % 4;
  // Words 2m + part / 2 of the lanes 2 (part mod 2) and the next one.
  const uint32_t word = part % 2 * 8 + 2 * m + part / 2;
  for (uint32_t first = 0; first < count; first += 4) {
    const uint32_t own = first + lane() / 8;
    const uint32_t k = (tile + own) * 64 + m * 32 + part * 8;
    float4 v[2];
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      v[i] = four_of_column(p, from, own < count ? k + 4 * i : p.k, factor);
    }
    uint32_t most = larger_of(most_bits(v[0]), most_bits(v[1]));
    most = larger_of(most, shuffle_xor(most, 1));
    most = larger_of(most, shuffle_xor(most, 2));
    const BytesScale scale = bytes_scale(float_of(most));
    const uint32_t words[2] = {four_bytes(v[0], scale), four_bytes(v[1], scale)};
    int32_t sum = 0;
    if constexpr (Weights::kLeast) {
      sum = dot4(words[1], 0x01010101u, dot4(words[0], 0x01010101u, 0));
      sum += shuffle_xor(sum, 1);
      if constexpr (Weights::kRun == 32) sum += shuffle_xor(sum, 2);
    }
    if (own >= count) continue;
    const uint32_t at = (to + own) * 16 + word;
    x.words[at] = words[0];
    x.words[at + 4] = words[1];
    if (part == 0) x.scales[(to + own) * 2 + m] = scale.scale;
    if constexpr (Weights::kLeast) {
      constexpr uint32_t kOfRun = Weights::kRun / 8;  // lanes
      if (part % kOfRun == 0) {
        x.sums[(to + own) * kRuns + m * (kRuns / 2) + part / kOfRun] =
            negative_sum(scale.scale, sum);
      }
    }
  }
}

/// The same of a column that is bytes already.
INFER_DEVICE void bring_tiles(const ProductParams& p, const Bytes& x, uint32_t tile, uint32_t count,
                              uint32_t to) {
  const Global<const uint32_t> words(p.bytes.words);
  for (uint32_t i = lane(); i < count * 4; i += 32) {
    store_shared<uint4>(x.words, (to * 4 + i) * 4, load_as<uint4>(words, (tile * 4 + i) * 4));
  }
  const Global<const float> scales(p.bytes.scales);
  const Global<const float> sums(p.bytes.sums);
  for (uint32_t i = lane(); i < count; i += 32) {
    store_shared<float2>(x.scales, (to + i) * 2, load_as<float2>(scales, (tile + i) * 4));
    if constexpr (kSumRuns == 2) {
      store_shared<float2>(x.sums, (to + i) * 2, load_as<float2>(sums, (tile + i) * 2));
    } else if constexpr (kSumRuns == 4) {
      store_shared<float4>(x.sums, (to + i) * 4, load_as<float4>(sums, (tile + i) * 4));
    }
  }
}

/// The lane's part of the sums of two tiles' runs, of rows g and g + 8.
using PairSums = int32_t[2][2][kRuns];  // [tile][row][run]

/// Sums of the whole group of lanes: those of the lane's row and tile, raised.
INFER_DEVICE void exchange(const PairSums& sums, int32_t (&own)[kRuns]) {
  const bool lower = lane() % 4 >= 2;  // rows g + 8
  const bool second = lane() % 2 != 0;
  int32_t of_row[2][kRuns];
#pragma unroll
  for (uint32_t tile = 0; tile < 2; ++tile) {
#pragma unroll
    for (uint32_t run = 0; run < kRuns; ++run) {
      const int32_t(&both)[2][kRuns] = sums[tile];
      const int32_t other = shuffle_xor(lower ? both[0][run] : both[1][run], 2);
      of_row[tile][run] = (lower ? both[1][run] : both[0][run]) + other;
    }
  }
#pragma unroll
  for (uint32_t run = 0; run < kRuns; ++run) {
    const int32_t other = shuffle_xor(second ? of_row[0][run] : of_row[1][run], 1);
    own[run] = (second ? of_row[1][run] : of_row[0][run]) + other + kRaisedSum;
  }
}

/// Adds the product of the pair of tiles that begins with tile `tile` of the piece; `at`: its place
/// in shared memory. `whole`: whether there is a second tile.
INFER_DEVICE void add_pair(const Piece& piece, uint32_t tile, const Bytes& x, uint32_t at,
                           bool whole, float& sum) {
  int32_t own[Weights::kParts][kRuns];
  const uint32_t second = lane() % 2;
  // Raw data of the lane's own tile; of types with larger units, both have the same.
  const typename Weights::Raw& first_raw = piece.raw[0];
  const typename Weights::Raw& second_raw = piece.raw[kPieceUnits - 1];
#pragma unroll
  for (uint32_t part = 0; part < Weights::kParts; ++part) {
    PairSums sums;
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      uint32_t a[8];
      Weights::codes(i == 0 ? first_raw : second_raw, (tile + i) % Weights::kTiles, part, a);
      const uint4 b = load_shared<uint4>(x.words, ((whole ? at + i : at) * 4 + lane() % 4) * 4);
#pragma unroll
      for (uint32_t row = 0; row < 2; ++row) {
#pragma unroll
        for (uint32_t run = 0; run < kRuns; ++run) {
          int32_t s = 0;
          // Registers of A: of both rows in turns.
#pragma unroll
          for (uint32_t r = run * 4 / kRuns; r < (run + 1) * 4 / kRuns; ++r) {
            s = Weights::kUnsigned ? dot4_unsigned(a[2 * r + row], part_of(b, r), s)
                                   : dot4(a[2 * r + row], part_of(b, r), s);
          }
          sums[i][row][run] = s;
        }
      }
    }
    exchange(sums, own[part]);
  }
  float scales[kRuns];
  float leasts[kRuns] = {};
  const uint32_t h = lane() % 4 / 2;
  if constexpr (kPieceUnits == 1) {
    Weights::row_scales(first_raw, tile + second, h, scales, leasts);
  } else {
    const typename Weights::Raw own_raw = second == 0 ? first_raw : second_raw;
    Weights::row_scales(own_raw, 0, h, scales, leasts);
  }
  if (!whole && second != 0) return;
  const float2 of_column = load_shared<float2>(x.scales, (at + second) * 2);
  float run_sums[kRuns] = {};
  if constexpr (kSumRuns == 2) {
    const float2 both = load_shared<float2>(x.sums, (at + second) * 2);
    run_sums[0] = both.x;
    run_sums[1] = both.y;
  } else if constexpr (kSumRuns == 4) {
    const float4 all = load_shared<float4>(x.sums, (at + second) * 4);
    run_sums[0] = all.x;
    run_sums[1] = all.y;
    run_sums[2] = all.z;
    run_sums[3] = all.w;
  }
#pragma unroll
  for (uint32_t run = 0; run < kRuns; ++run) {
    const float scale = run * Weights::kRun < 32 ? of_column.x : of_column.y;
#pragma unroll
    for (uint32_t part = 0; part < Weights::kParts; ++part) {
      const float product =
          fused(float_of(static_cast<uint32_t>(own[part][run])), scale, raised_scale(scale));
      const float of_weights = Weights::kParts == 1 ? scales[run] : scales[run] * part_unit(part);
      sum = fused(of_weights, product, sum);
    }
    if constexpr (Weights::kLeast) sum = fused(leasts[run], run_sums[run], sum);
  }
}

/// Adds the products of `count` units from `place` on; `at`: the first tile's place in shared
/// memory. The first kAhead pieces are in `pieces`, or on their way.
INFER_DEVICE void add_units(Piece (&pieces)[kAhead], Place place, uint32_t count, const Bytes& x,
                            uint32_t at, float& sum) {
  constexpr uint32_t kUnits = kAhead * kPieceUnits;  // on their way
  for (uint32_t unit = 0; unit < count; unit += kUnits) {
#pragma unroll
    for (uint32_t a = 0; a < kAhead; ++a) {
      const uint32_t own = unit + a * kPieceUnits;
      if (own < count) {
#pragma unroll
        for (uint32_t tile = 0; tile < kPieceTiles; tile += 2) {
          add_pair(pieces[a], tile, x, at, kPieceUnits == 1 || own + 1 < count, sum);
          at += 2;
        }
        if (own + kUnits < count) {
          pieces[a] = load_piece(place, (a + kAhead) * kPieceUnits, count - own - kUnits);
        }
      }
    }
    advance<Weights>(place, kUnits);
  }
}

/// Tiles of rows that a block computes one after the other: of two come the 32 results of a piece
/// of bytes.
template <uint32_t kWeights>
INFER_DEVICE uint32_t tiles_together(const ProductParams& p) {
  return kWeights == 2 && p.results.words != 0 ? 2 : 1;
}

template <uint32_t kWeights>
INFER_DEVICE void multiply_column(const ProductParams& p) {
  constexpr uint32_t kSums = 2 * kProductWarps;  // of a row
  const Columns columns = columns_of(p);
  if (columns.count == 0) return;
  INFER_SHARED(float, parts, 2 * kWeights * kSums * 16);
  INFER_SHARED(float, made, 32);
  const Column column = column_of(p, columns, 0);
  const uint32_t from = place(p.x_strides, column.place, column.row);
  const float factor = p.normed != 0 ? norm_factor(Global<const float>(p.x), from, p.k, p.eps) : 1;

  const uint32_t units = units_of(p.k);
  const Stretch stretch = stretch_of(units, warp());
  const uint32_t chunk_units = p.chunk / Weights::kTiles;
  const uint32_t longest = stretch_of(units, 0).end;
  const uint32_t chunks = (longest + chunk_units - 1) / chunk_units;
  const Bytes x = bytes_in_shared(kProductWarps * p.chunk);
  const uint32_t first_tile = warp() * p.chunk;  // in shared memory

  uint32_t which = 0;
  uint32_t turn = 0;
  uint32_t held = chunks;  // the chunk in shared memory: none
  const uint32_t together = tiles_together<kWeights>(p);
  const auto after = [&](uint32_t row_tile) {
    return together == 2 && row_tile % 2 == 0 ? row_tile + 1
                                              : row_tile + 1 + (grid_x() - 1) * together;
  };
  for (uint32_t row_tile = block_x() * together; row_tile < p.tiles; row_tile = after(row_tile)) {
    which = weight_of(p, row_tile, which);
    const uint32_t n = p.weights[which].n;
    const uint32_t tile = row_tile - p.weights[which].first_tile;
    const uint32_t stored = columns.matrix * ((n + 15) / 16) + tile;
    // [weight][warp][parity of tiles][row]
    const SharedPtr<float> own = parts + turn * kWeights * kSums * 16;
    // One weight after the other: more blocks find room in a multiprocessor.
#pragma unroll 1
    for (uint32_t w = 0; w < kWeights; ++w) {
      const MatrixParams& of = p.weights[which + w];
      float sum = 0;
      Place place = place_of<Weights>(of.w, of.planes, stored, units);
      advance<Weights>(place, stretch.begin);
      for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
        const uint32_t begin = stretch.begin + chunk * chunk_units;
        const uint32_t behind = begin + chunk_units;
        const uint32_t end = behind < stretch.end ? behind : stretch.end;
        const uint32_t count = begin < end ? end - begin : 0;
        // On their way while the column is rounded.
        Piece pieces[kAhead];
#pragma unroll
        for (uint32_t a = 0; a < kAhead; ++a) {
          if (a * kPieceUnits < count) {
            pieces[a] = load_piece(place, a * kPieceUnits, count - a * kPieceUnits);
          }
        }
        if (held != chunk) {
          sync_warp();  // all have read the chunk before
          const uint32_t tiles = count * Weights::kTiles;
          if (p.bytes.words != 0) {
            bring_tiles(p, x, begin * Weights::kTiles, tiles, first_tile);
          } else {
            round_tiles(p, from, factor, x, begin * Weights::kTiles, tiles, first_tile);
          }
          held = chunk;
          sync_warp();
        }
        add_units(pieces, place, count, x, first_tile, sum);
        advance<Weights>(place, chunk_units);
      }
      const uint32_t of_lane = warp() * 2 + lane() % 2;
      own[(w * kSums + of_lane) * 16 + lane() % 4 / 2 * 8 + lane() / 4] = sum * Weights::kUnit;
    }
    sync_block();
    const uint32_t row = tile * 16 + thread();
    if (thread() < 16 && row < n) {
      float all[kWeights];
#pragma unroll
      for (uint32_t w = 0; w < kWeights; ++w) {
        const uint32_t at = w * kSums * 16 + thread();
        float sum = own[at];
#pragma unroll
        for (uint32_t i = 1; i < kSums; ++i) sum = sum + own[at + i * 16];
        all[w] = sum;
      }
      const MatrixParams& of = p.weights[which];
      const MatrixParams& second = p.weights[which + kWeights - 1];
      if (together == 1) {
        finish(p, of, second, all[0], all[kWeights - 1], columns.matrix, column, row);
      } else {
        made[tile % 2 * 16 + thread()] =
            result_of(p, of, second, all[0], all[kWeights - 1], columns.matrix, column, row);
      }
    }
    if (together == 2 && tile % 2 == 1 && warp() == 0) {
      sync_warp();  // all have put their results there
      store_piece(p.results, n / 64, p.result_runs, 0, lane() < 8 ? tile / 2 : n,
                  load_shared<float4>(made, lane() % 8 * 4));
    }
    turn ^= 1;
  }
}

/// Asks for the weights that the warp loads first: before what the kernel before computes is there,
/// or while a norm is computed.
template <uint32_t kWeights>
INFER_DEVICE void ask_for_first(const ProductParams& p) {
  // Which expert comes first is not known yet.
  const uint32_t row_tile = block_x() * tiles_together<kWeights>(p);
  if (p.matrix != kMatrixOnly || row_tile >= p.tiles) return;
  if (!kBeginsEarly && p.normed == 0) return;
  const uint32_t which = weight_of(p, row_tile, 0);
  const uint32_t tile = row_tile - p.weights[which].first_tile;
  const uint32_t units = units_of(p.k);
  const Stretch stretch = stretch_of(units, warp());
#pragma unroll
  for (uint32_t w = 0; w < kWeights; ++w) {
    const MatrixParams& of = p.weights[which + w];
    Place place = place_of<Weights>(of.w, of.planes, tile, units);
    advance<Weights>(place, stretch.begin);
#pragma unroll
    for (uint32_t a = 0; a < kAhead * kPieceUnits; ++a) {
      if (stretch.begin + a < stretch.end) (void)Weights::load(asked(place), a);
    }
  }
}

INFER_KERNEL_AHEAD(INFER_JOIN(column_, INFER_TYPE), ProductParams, kProductThreads,
                   column_blocks(kPieceBytes), ask_for_first<1>) {
  multiply_column<1>(p);
}
INFER_KERNEL_AHEAD(INFER_JOIN(INFER_JOIN(column_, INFER_TYPE), _glu), ProductParams,
                   kProductThreads, column_blocks(kPieceBytes), ask_for_first<2>) {
  multiply_column<2>(p);
}

}  // namespace infer::cuda::INFER_TYPE
