// Products of weights in the fragment layout (packing.h) with a single column, rounded to bytes;
// included after the header of a type by a generated unit that defines INFER_TYPE.
//
// Tensor cores would multiply seven columns more. A lane multiplies the codes of rows g and g + 8
// that it would have as a fragment with four bytes at a time. The four lanes of a group exchange
// these sums by pairs of tiles, so that each of them gets whole runs: lane t of a group those of
// row g + 8 (t / 2) and of tile t mod 2 of the pair. It scales and adds them as
// weights/fragment_sums.h has it.
//
// Weights come to shared memory of a warp's own some units ahead, also from one row of tiles to the
// next, and the first ones before the kernel before has ended: the blocks of two such kernels find
// room in a multiprocessor. A block rounds the column for itself, unless what made the column has
// done so (rounded_values.h).
//
// Of a matrix with many rows, a warp has a row of tiles alone; of one with few, the warps of a
// block share out K.
#include "backends/cuda/weights/shared_column.h"
#include "backends/cuda/weights/shared_units.h"

namespace infer::cuda::INFER_TYPE {

/// What a warp copies at once: whole pairs of tiles.
constexpr uint32_t kPieceUnits = Weights::kTiles == 1 ? 2 : 1;
constexpr uint32_t kPieceTiles = Weights::kTiles * kPieceUnits;
constexpr uint32_t kPieceWords = kPieceUnits * unit_bytes() / 4;
constexpr uint32_t kStages = column_stages(kPieceWords * 4);
/// A row's sums: of even and odd tiles of each stretch.
constexpr uint32_t kSums = 2 * kProductWarps;

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

/// Adds the product of the pair of tiles that begins with tile `tile` of the piece, tile `at` of
/// the column. `whole`: whether there is a second tile.
INFER_DEVICE void add_pair(const typename Weights::Raw (&raw)[kPieceUnits], uint32_t tile,
                           const Bytes& x, uint32_t at, bool whole, float& sum) {
  int32_t own[Weights::kParts][kRuns];
  const uint32_t second = lane() % 2;
  // Of types with larger units both tiles are of one.
  const typename Weights::Raw& first_raw = raw[0];
  const typename Weights::Raw& second_raw = raw[kPieceUnits - 1];
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
  load_sums(run_sums, x.sums, (at + second) * kSumRuns);
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

/// How the warps of a block share its work: 2^share of them have a row of tiles of a weight
/// together, and stretches of K one after another.
template <uint32_t kWeights>
struct Share {
  uint32_t places;         ///< rows of tiles times weights of a block
  uint32_t place;          ///< the warp's
  uint32_t stretch, last;  ///< the warp's stretches [stretch, last)

  INFER_DEVICE explicit Share(uint32_t share) {
    places = kProductWarps >> share;
    place = warp() >> share;
    const uint32_t own = kProductWarps >> share;
    stretch = (warp() - (place << share)) * own;
    last = stretch + own;
  }
  /// Rows of tiles of a block.
  INFER_DEVICE uint32_t rows() const { return places / kWeights; }
  /// The warp's row of tiles in group `group`; which weight.
  INFER_DEVICE uint32_t row_tile(uint32_t group) const { return group * rows() + place / kWeights; }
  INFER_DEVICE uint32_t weight() const { return place % kWeights; }
};

/// Units of the piece that begins with `unit`, in a stretch that ends with `end`.
INFER_DEVICE uint32_t units_of_piece(uint32_t unit, uint32_t end) {
  return end - unit < kPieceUnits ? end - unit : kPieceUnits;
}

/// The weights on their way to a warp: what it multiplies in each group of rows of tiles.
template <uint32_t kWeights>
struct Copies {
  uint32_t units;
  uint32_t group;
  uint32_t stretch = 0, unit = 0, end = 0;
  uint64_t plane[Weights::kPlanes];

  INFER_DEVICE void begin(const ProductParams& p, const Share<kWeights>& share, uint32_t matrix) {
    const uint32_t row_tile = share.row_tile(group);
    stretch = share.stretch;
    const Stretch of = stretch_of(units, stretch);
    unit = of.begin;
    end = of.end;
    if (row_tile >= p.tiles || unit == end) {  // nothing follows
      end = unit;
      return;
    }
    const uint32_t which = weight_of(p, row_tile, 0);
    const MatrixParams& weight = p.weights[which + share.weight()];
    const uint32_t tile = matrix * ((weight.n + 15) / 16) + row_tile - p.weights[which].first_tile;
    find_units(weight, uint64_t{tile} * units + unit, plane);
  }

  /// Starts the next copy, if there is one. Each is a group of copies of its own.
  INFER_DEVICE void copy(const ProductParams& p, const Share<kWeights>& share, uint32_t matrix,
                         const SharedPtr<uint32_t>& ring, uint32_t stage) {
    if (unit < end) {
      const uint32_t given = units_of_piece(unit, end);
      copy_units<kPieceUnits>(ring, stage * kPieceWords, given, plane);
#pragma unroll
      for (uint32_t i = 0; i < Weights::kPlanes; ++i) plane[i] += given * Weights::unit_bytes(i);
      unit += given;
      if (unit == end) {
        if (++stretch < share.last) end = stretch_of(units, stretch).end;
        if (unit == end) {
          group += grid_x();
          begin(p, share, matrix);
        }
      }
    }
    async_commit();
  }
};

/// The sum of a row: of kSums sums 16 floats apart.
INFER_DEVICE float sum_of_row(const SharedPtr<float>& parts, uint32_t at) {
  float sum = parts[at];
#pragma unroll
  for (uint32_t i = 1; i < kSums; ++i) sum = sum + parts[at + i * 16];
  return sum;
}

template <uint32_t kWeights>
INFER_DEVICE void multiply_column(const ProductParams& p) {
  const uint32_t words = p.stages * kPieceWords;          // of a warp's weights
  INFER_SHARED(float, parts, kProductWarps* kSums * 16);  // [place][stretch][parity][row]
  INFER_SHARED(float, made, 64);
  const Share<kWeights> share(p.share);
  const uint32_t units = units_of(p.k);
  const uint32_t tiles = units * Weights::kTiles;
  const SharedPtr<uint32_t> ring =
      dynamic_shared<uint32_t>(0, kProductWarps * words) + warp() * words;
  const Bytes x = bytes_in_shared(kProductWarps * words * 4, tiles);

  Copies<kWeights> copies{units, block_x()};
  const auto begin = [&](uint32_t matrix) {
    copies.begin(p, share, matrix);
#pragma unroll 1
    for (uint32_t stage = 0; stage < p.stages; ++stage) copies.copy(p, share, matrix, ring, stage);
  };
  // What comes behind the copies of weights waits for them: so some is asked for before.
  const uint32_t rows = load_early(Global<const uint32_t>(p.step), p.rows);
  const uint32_t each = (tiles + kProductWarps - 1) / kProductWarps;
  const uint32_t first = warp() * each < tiles ? warp() * each : tiles;
  const uint32_t last = first + each < tiles ? first + each : tiles;
  if (p.normed != 0 && p.norm != 0) ask_for_norm(p, first * 64, last * 64);
  // Which expert it is follows from what the kernel before computes.
  if (p.matrix == kMatrixOnly) begin(0);
  wait_for_last();
  const Columns columns = columns_of(p, rows);
  if (columns.count == 0) {
    async_wait<0>();
    return;
  }
  if (p.matrix != kMatrixOnly) begin(columns.matrix);

  const Column column = column_of(p, columns, 0);
  if (p.bytes.words != 0) {
    bring_tiles(p, x, first, last);
  } else {
    const uint32_t from = place(p.x_strides, column.place, column.row);
    const float factor =
        p.normed != 0 ? norm_factor(Global<const float>(p.x), from, p.k, p.eps) : 1.0f;
    round_tiles(p, from, factor, x, first, last);
  }
  sync_block();

  uint32_t stage = 0;
#pragma unroll 1
  for (uint32_t group = block_x(); group * share.rows() < p.tiles; group += grid_x()) {
    if (share.row_tile(group) < p.tiles) {
#pragma unroll 1
      for (uint32_t s = share.stretch; s < share.last; ++s) {
        const Stretch stretch = stretch_of(units, s);
        float sum = 0;
#pragma unroll 1
        for (uint32_t unit = stretch.begin; unit < stretch.end;) {
          const uint32_t given = units_of_piece(unit, stretch.end);
          if (p.stages == kStages) {
            async_wait<kStages - 1>();
          } else if (p.stages == 2) {
            async_wait<1>();
          } else {
            async_wait<0>();
          }
          sync_warp();  // all lanes' copies are there
          const SharedPlace from = shared_place<kPieceUnits>(ring, stage * kPieceWords * 4);
          typename Weights::Raw raw[kPieceUnits];
#pragma unroll
          for (uint32_t i = 0; i < kPieceUnits; ++i) {
            raw[i] = load_of_row<Weights>(from, i < given ? i : 0, lane() % 4 / 2);
          }
#pragma unroll
          for (uint32_t tile = 0; tile < kPieceTiles; tile += 2) {
            add_pair(raw, tile, x, unit * Weights::kTiles + tile, given == kPieceUnits, sum);
          }
          sync_warp();  // all have read the stage
          copies.copy(p, share, columns.matrix, ring, stage);
          stage = stage + 1 == p.stages ? 0 : stage + 1;
          unit += given;
        }
        const uint32_t to = (share.place * kSums + s * 2 + lane() % 2) * 16;
        parts[to + lane() % 4 / 2 * 8 + lane() / 4] = sum * Weights::kUnit;
      }
    }
    sync_block();
    const uint32_t row_tile = group * share.rows() + thread() / 16;
    if (thread() < share.rows() * 16 && row_tile < p.tiles) {
      const uint32_t which = weight_of(p, row_tile, 0);
      const MatrixParams& of = p.weights[which];
      const MatrixParams& second = p.weights[which + kWeights - 1];
      const uint32_t row = (row_tile - of.first_tile) * 16 + thread() % 16;
      if (row < of.n) {
        const uint32_t at = thread() / 16 * kWeights * kSums * 16 + thread() % 16;
        const float sum = sum_of_row(parts, at);
        const float up = kWeights == 1 ? 0.0f : sum_of_row(parts, at + kSums * 16);
        if (kWeights == 1 || p.results.words == 0) {
          finish(p, of, second, sum, up, columns.matrix, column, row);
        } else {
          made[thread()] = result_of(p, of, second, sum, up, columns.matrix, column, row);
        }
      }
    }
    if (kWeights == 2 && p.results.words != 0) {  // pieces of 32 rows: pairs of tiles
      sync_block();
      const uint32_t pieces = share.rows() / 2;
      if (warp() == 0) {
        const uint32_t own = lane() / 8;
        const bool given = own < pieces && group * share.rows() + 2 * own < p.tiles;
        store_piece(p.results, p.tiles / 4, p.result_runs, 0,
                    given ? group * pieces + own : p.tiles,
                    load_shared<float4>(made, (own < pieces ? lane() : 0) * 4));
      }
    }
    if ((group + grid_x()) * share.rows() < p.tiles) sync_block();  // all sums have been read
  }
  async_wait<0>();
}

/// Where no kernel begins early, and for codes in two parts, blocks have more registers.
constexpr int kBlocks = kBeginsEarly && Weights::kParts == 1 ? kColumnBlocks : 3;
INFER_KERNEL_THAT_WAITS(INFER_JOIN(column_, INFER_TYPE), ProductParams, kProductThreads, kBlocks) {
  multiply_column<1>(p);
}
INFER_KERNEL_THAT_WAITS(INFER_JOIN(INFER_JOIN(column_, INFER_TYPE), _glu), ProductParams,
                        kProductThreads, kBlocks) {
  multiply_column<2>(p);
}

}  // namespace infer::cuda::INFER_TYPE
