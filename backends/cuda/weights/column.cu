// Products of weights in the fragment layout (packing.h) with a single column, rounded to bytes;
// included after the header of a type by a generated unit that defines INFER_TYPE.
//
// Tensor cores would multiply seven columns more. Here a lane has a row in every second tile, and
// multiplies four bytes at a time (weights/row_units.h): the integer sums of a run stay within the
// lane. Those of even and odd tiles are the sums that weights/fragment_sums.h has.
//
// Weights come to shared memory of a warp's own some units ahead, also from one row of tiles to the
// next, and the first ones before the kernel before has ended: the blocks of two such kernels find
// room in a multiprocessor. A block rounds the column for itself, unless what made the column has
// done so (rounded_values.h).
//
// Of a matrix with many rows, a warp has a row of tiles alone; of one with few, the warps of a
// block share out K.
#include "backends/cuda/weights/row_units.h"
#include "backends/cuda/weights/shared_column.h"

namespace infer::cuda::INFER_TYPE {

/// What a warp copies at once: whole pairs of tiles.
constexpr uint32_t kPieceTiles = column_piece_tiles(Weights::kTiles, unit_bytes());
constexpr uint32_t kPieceUnits = kPieceTiles / Weights::kTiles;
constexpr uint32_t kPieceBytes = column_piece_bytes(kPieceTiles, unit_bytes() / Weights::kTiles);
constexpr uint32_t kPieceWords = kPieceBytes / 4;
constexpr uint32_t kStages = column_stages(kPieceBytes);
/// A row's sums: of even and odd tiles of each stretch.
constexpr uint32_t kSums = 2 * kProductWarps;

using Row = RowPlace<kPieceUnits>;

/// The column from the lane's tile of the first pair on.
INFER_DEVICE Bytes of_lane(const Bytes& x) {
  const uint32_t tile = tile_of_pair();
  return {kept(x.words + tile * 16), kept(x.floats + tile * Bytes::kFloats)};
}

/// Adds the product of the lane's row in the pair of tiles that is `pair` of the piece at word
/// `at`, and that begins with tile `column` of the column. `tile`: the lane's, of its unit.
INFER_DEVICE void add_row(const Row& row, uint32_t at, const typename Weights::Scales& of_row,
                          uint32_t pair, uint32_t tile, const Bytes& x, uint32_t column,
                          float& sum) {
  int32_t own[Weights::kParts][kRuns];
#pragma unroll
  for (uint32_t part = 0; part < Weights::kParts; ++part) {
#pragma unroll
    for (uint32_t run = 0; run < kRuns; ++run) own[part][run] = kRaisedSum;
  }
#pragma unroll
  for (uint32_t t = 0; t < 4; ++t) {
    const RowWords<Weights::kWords> words = row.load(at, pair, t);
    const uint4 b = load_shared<uint4>(x.words, (column * 4 + t) * 4);
#pragma unroll
    for (uint32_t part = 0; part < Weights::kParts; ++part) {
      uint32_t q[4];
      Weights::codes(words, part, q);
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        int32_t& s = own[part][i * kRuns / 4];
        s = Weights::kUnsigned ? dot4_unsigned(q[i], part_of(b, i), s)
                               : dot4(q[i], part_of(b, i), s);
      }
    }
  }
  float scales[kRuns];
  float leasts[kRuns] = {};
  Weights::row_scales(of_row, tile, half_of_rows(), scales, leasts);
  const TileFloats of_column = load_floats(x.floats, column);
#pragma unroll
  for (uint32_t run = 0; run < kRuns; ++run) {
    const float scale = of_column.scales[run * Weights::kRun / 32];
#pragma unroll
    for (uint32_t part = 0; part < Weights::kParts; ++part) {
      const float product =
          fused(float_of(static_cast<uint32_t>(own[part][run])), scale, raised_scale(scale));
      const float of_weights = Weights::kParts == 1 ? scales[run] : scales[run] * part_unit(part);
      sum = fused(of_weights, product, sum);
    }
    if constexpr (Weights::kLeast) sum = fused(leasts[run], of_column.sums[run], sum);
  }
}

/// Adds the products of the `given` units of the piece at word `at`; they begin with unit `unit` of
/// the column.
INFER_DEVICE void add_piece(const Row& row, uint32_t at, uint32_t unit, uint32_t given,
                            const Bytes& x, float& sum) {
  const uint32_t second = tile_of_pair();
  if constexpr (Weights::kTiles == 1) {
#pragma unroll
    for (uint32_t pair = 0; pair < kPieceUnits; pair += 2) {
      if (pair + second >= given) break;
      add_row(row, at, row.load_scales(at, pair), pair, 0, x, unit + pair, sum);
    }
  } else {
    const typename Weights::Scales scales = row.load_scales(at, 0);
#pragma unroll
    for (uint32_t pair = 0; pair < Weights::kTiles; pair += 2) {
      add_row(row, at, scales, pair, pair + second, x, unit * Weights::kTiles + pair, sum);
    }
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
                         const RowCopies& places, uint32_t at) {
    if (unit < end) {
      const uint32_t given = units_of_piece(unit, end);
      copy_units<kPieceUnits>(places, at, given, plane);
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
  // What comes behind the copies of weights waits for them: so some is asked for before.
  const uint32_t rows = load_early(Global<const uint32_t>(p.step), p.rows);
  const uint32_t each = (tiles + kProductWarps - 1) / kProductWarps;
  const uint32_t first = warp() * each < tiles ? warp() * each : tiles;
  const uint32_t last = first + each < tiles ? first + each : tiles;
  if (p.normed != 0 && p.norm != 0) ask_for_norm(p, first * 64, last * 64);
  // Which expert it is follows from what the kernel before computes.
  const bool after_last = p.matrix != kMatrixOnly;
  if (after_last) wait_for_last();
  const Columns columns = columns_of(p, rows);
  if (columns.count > 0) {
    copies.begin(p, share, columns.matrix);
    const RowCopies places(ring);
#pragma unroll 1
    for (uint32_t at = 0; at < words; at += kPieceWords) {
      copies.copy(p, share, columns.matrix, places, at);
    }
  }
  if (!after_last) wait_for_last();
  if (columns.count == 0) return;

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

  const RowCopies places(ring);
  const Row row(ring);
  const Bytes own_x = of_lane(x);
  uint32_t at = 0;  // word of the stage
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
          add_piece(row, at, unit, given, own_x, sum);
          sync_warp();  // all have read the stage
          copies.copy(p, share, columns.matrix, places, at);
          at = at + kPieceWords == words ? 0 : at + kPieceWords;
          unit += given;
        }
        const uint32_t to = (share.place * kSums + s * 2 + tile_of_pair()) * 16;
        parts[to + half_of_rows() * 8 + lane() / 4] = sum * Weights::kUnit;
      }
    }
    sync_block();
    const uint32_t row_tile = group * share.rows() + thread() / 16;
    if (thread() < share.rows() * 16 && row_tile < p.tiles) {
      const uint32_t which = weight_of(p, row_tile, 0);
      const MatrixParams& of = p.weights[which];
      const MatrixParams& second = p.weights[which + kWeights - 1];
      const uint32_t of_y = (row_tile - of.first_tile) * 16 + thread() % 16;
      if (of_y < of.n) {
        const uint32_t from = thread() / 16 * kWeights * kSums * 16 + thread() % 16;
        const float sum = sum_of_row(parts, from);
        const float up = kWeights == 1 ? 0.0f : sum_of_row(parts, from + kSums * 16);
        if (kWeights == 1 || p.results.words == 0) {
          finish(p, of, second, sum, up, columns.matrix, column, of_y);
        } else {
          made[thread()] = result_of(p, of, second, sum, up, columns.matrix, column, of_y);
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
