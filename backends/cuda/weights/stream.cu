// Products of weights in the fragment layout (packing.h) with up to 8 columns that are bytes
// (ops/to_bytes.h), included after the header of a type by a generated unit that defines
// INFER_TYPE.
//
// A warp multiplies tiles of 16 rows and 64 elements of K with up to 8 columns: as many as there
// are cost the same. The warps of a block share out K in stretches (weights/fragment_sums.h).
//
// A warp's weights and activations come to shared memory of its own, some elements of K ahead, also
// from one row of tiles to the next. The first weights are on their way before the kernel before
// has ended. Rounding the columns is a launch of its own, so a single column has
// weights/column.cu.
#include "backends/cuda/weights/fragment_sums.h"
#include "backends/cuda/weights/shared_units.h"
#include "backends/cuda/weights/stream.h"

namespace infer::cuda::INFER_TYPE {

/// Units that are copied together.
constexpr uint32_t kUnits = kStreamTiles / Weights::kTiles;

/// What a warp has of K, and where its stages are.
struct Stream {
  uint32_t units;  ///< of a row of tiles
  uint32_t first;  ///< unit of the warp's stretch
  uint32_t count;  ///< units of the stretch
  uint32_t columns;
  SharedPtr<uint32_t> words;  ///< of all stages: [stage][weights, activations, scales, sums]
  SharedPtr<float> floats;    ///< the same place
  uint32_t stage_words;

  INFER_DEVICE uint32_t stage(uint32_t s) const {
    return (warp() * kStreamStages + s) * stage_words;
  }
  INFER_DEVICE uint32_t activations(uint32_t s) const {
    return stage(s) + kUnits * unit_bytes() / 4;
  }
  INFER_DEVICE uint32_t scales(uint32_t s) const {
    return activations(s) + kStreamTiles * columns * 16;
  }
  INFER_DEVICE uint32_t sums(uint32_t s) const { return scales(s) + kStreamTiles * columns * 4; }
};

/// The weights on their way to a warp: all units of its stretch in a row of tiles, then those of
/// the other weight of a Glu, then the next row of tiles.
template <uint32_t kWeights>
struct WeightCopies {
  uint32_t row_tile, weight, unit;
  uint32_t which = 0;
  uint64_t plane[Weights::kPlanes];

  INFER_DEVICE void begin_stretch(const ProductParams& p, const Stream& stream, uint32_t matrix) {
    if (row_tile >= p.tiles) return;
    which = weight_of(p, row_tile, which);
    const MatrixParams& of = p.weights[which + weight];
    const uint32_t tile = matrix * ((of.n + 15) / 16) + row_tile - p.weights[which].first_tile;
    find_units(of, uint64_t{tile} * stream.units + stream.first, plane);
    unit = 0;
  }

  INFER_DEVICE void copy(const ProductParams& p, const Stream& stream, uint32_t matrix,
                         uint32_t stage) {
    if (row_tile >= p.tiles || stream.count == 0) return;
    const uint32_t given = stream.count - unit < kUnits ? stream.count - unit : kUnits;
    copy_units<kUnits>(stream.words, stream.stage(stage), given, plane);
#pragma unroll
    for (uint32_t i = 0; i < Weights::kPlanes; ++i) plane[i] += kUnits * Weights::unit_bytes(i);
    unit += kUnits;
    if (unit < stream.count) return;
    if (++weight == kWeights) {
      weight = 0;
      row_tile += grid_x();
    }
    begin_stretch(p, stream, matrix);
  }
};

/// The activations on their way: those of the warp's stretch, again and again. A lane copies pieces
/// of 16 bytes.
struct ColumnCopies {
  static constexpr uint32_t kPieces = kStreamTiles * kProductColumns * 4 / 32;
  uint64_t words, scales, sums;   ///< the lane's next ones
  uint32_t further[kPieces - 1];  ///< bytes from `words` to its other pieces
  uint32_t unit = 0;

  INFER_DEVICE void begin(const ProductParams& p, const Stream& stream,
                          const SharedPtr<uint32_t>& sources) {
    const auto place = [&](uint32_t i) {  // of column i % columns of tile i / columns
      uint32_t tile = 0;
      while (i >= stream.columns) {
        i -= stream.columns;
        ++tile;
      }
      return tile < kStreamTiles ? tile * p.bytes.columns + sources[i] : 0;
    };
    const uint64_t first = uint64_t{stream.first * Weights::kTiles} * p.bytes.columns;
    uint32_t from = 0;
#pragma unroll 1
    for (uint32_t n = 0; n < kPieces; ++n) {
      const uint32_t at = place((n * 32 + lane()) / 4) * 64;
      if (n == 0) from = at;
#pragma unroll
      for (uint32_t m = 1; m < kPieces; ++m) {
        if (m == n) further[m - 1] = at - from;
      }
    }
    words = p.bytes.words + first * 64 + from + lane() % 4 * 16;
    const uint64_t column = first + place(lane());
    scales = p.bytes.scales + column * 16;
    sums = p.bytes.sums + column * (4 * kSumRuns);
  }

  INFER_DEVICE void copy(const ProductParams& p, const Stream& stream, uint32_t stage) {
    if (stream.count == 0) return;
    const uint32_t columns = stream.columns;
    const uint32_t to = stream.activations(stage) + lane() * 4;
    if (lane() < 16 * columns) {
      async_copy_16(stream.words, to, Global<const uint32_t>(words), 0);
    }
#pragma unroll
    for (uint32_t n = 1; n < kPieces; ++n) {
      if (2 * n >= columns) break;
      if (32 * n + lane() < 16 * columns) {
        async_copy_16(stream.words, to + 128 * n, Global<const uint32_t>(words + further[n - 1]),
                      0);
      }
    }
    if (lane() < 4 * columns) {
      async_copy_16(stream.words, to + columns * 64, Global<const uint32_t>(scales), 0);
      const uint32_t to_sums = stream.sums(stage) + lane() * kSumRuns;
      if constexpr (kSumRuns == 2) {
        async_copy_8(stream.words, to_sums, Global<const uint32_t>(sums), 0);
      } else if constexpr (kSumRuns == 4) {
        async_copy_16(stream.words, to_sums, Global<const uint32_t>(sums), 0);
      }
    }
    // The next 256 elements of K, or the first of the stretch again.
    const uint32_t next = unit + kUnits < stream.count ? unit + kUnits : 0;
    const int64_t tiles =
        (static_cast<int64_t>(next) - static_cast<int64_t>(unit)) * Weights::kTiles;
    const int64_t step = tiles * p.bytes.columns * 8;
    words += static_cast<uint64_t>(step * 8);
    scales += static_cast<uint64_t>(step * 2);
    sums += static_cast<uint64_t>(step / 2 * kSumRuns);
    unit = next;
  }
};

/// Adds the products of a stage that has `given` units. sums: of even and odd tiles.
INFER_DEVICE void add_stage(const Stream& stream, uint32_t stage, uint32_t given,
                            const Start& start, float (&sums)[2][4]) {
  const SharedPlace place = shared_place<kUnits>(stream.words, stream.stage(stage) * 4);
  // Lanes of columns that are not there read those of the last one.
  const auto within = [&](uint32_t c) { return c < stream.columns ? c : stream.columns - 1; };
  const uint32_t own = within(lane() / 4);
  const uint32_t pair[2] = {within(lane() % 4 * 2), within(lane() % 4 * 2 + 1)};
  uint32_t words = stream.activations(stage) + (own * 4 + lane() % 4) * 4;
  uint32_t scales = stream.scales(stage);
  uint32_t offsets = stream.sums(stage);
#pragma unroll
  for (uint32_t unit = 0; unit < kUnits; ++unit) {
    if (unit >= given) break;
    const typename Weights::Raw raw = Weights::load(place, unit);
#pragma unroll
    for (uint32_t tile = 0; tile < Weights::kTiles; ++tile) {
      ColumnPart column;
      column.b = load_shared<uint4>(stream.words, words);
#pragma unroll
      for (uint32_t c = 0; c < 2; ++c) {
        const float4 of = load_shared<float4>(stream.floats, scales + pair[c] * 4);
        column.scale[0][c] = of.x;
        column.scale[1][c] = of.y;
        column.raised[0][c] = of.z;
        column.raised[1][c] = of.w;
      }
#pragma unroll
      for (uint32_t c = 0; c < 2; ++c) {
        load_sums(column.sum[c], stream.floats, offsets + pair[c] * kSumRuns);
      }
      add_runs(row_codes(raw, tile), column, start, sums[(unit * Weights::kTiles + tile) % 2]);
      words += stream.columns * 16;
      scales += stream.columns * 4;
      offsets += stream.columns * kSumRuns;
    }
  }
}

template <uint32_t kWeights>
INFER_DEVICE void multiply_stream(const ProductParams& p) {
  constexpr uint32_t kPart = 16 * kProductColumns;  // sums of a warp's even or odd tiles
  constexpr uint32_t kParts = 2 * kProductWarps;
  INFER_SHARED(uint32_t, sources, kProductColumns);
  INFER_SHARED(float, parts, kParts* kPart* kWeights);
  const uint32_t units = units_of(p.k);
  const Stretch stretch = stretch_of(units, warp());
  const uint32_t stage_words = stream_bytes(kUnits * unit_bytes(), p.columns, kSumRuns) / 4;
  const uint32_t all = kProductWarps * kStreamStages * stage_words;
  Stream stream{units,
                stretch.begin,
                stretch.end - stretch.begin,
                0,
                dynamic_shared<uint32_t>(0, all),
                dynamic_shared<float>(0, all),
                stage_words};
  WeightCopies<kWeights> weights{block_x(), 0, 0, 0, {}};
  const auto begin = [&](uint32_t matrix) {
    weights.begin_stretch(p, stream, matrix);
#pragma unroll 1
    for (uint32_t s = 0; s < kStreamStages; ++s) weights.copy(p, stream, matrix, s);
    async_commit();
  };
  // Which expert it is follows from what the kernel before computes.
  if (p.matrix == kMatrixOnly) begin(0);
  wait_for_last();
  const Columns columns = columns_of(p);
  if (columns.count == 0) {
    async_wait<0>();
    return;
  }
  stream.columns = columns.count;
  if (p.matrix != kMatrixOnly) begin(columns.matrix);
  if (thread() < columns.count) sources[thread()] = column_number(p, columns, thread());
  sync_block();
  ColumnCopies activations;
  activations.begin(p, stream, sources);
#pragma unroll 1
  for (uint32_t s = 0; s < kStreamStages; ++s) {
    activations.copy(p, stream, s);
    async_commit();
  }

  const Start start{
      {opaque(kRaisedSum), opaque(kRaisedSum), opaque(kRaisedSum), opaque(kRaisedSum)}};
  uint32_t stage = 0;
  uint32_t turn = 0;
  uint32_t which = 0;
  for (uint32_t row_tile = block_x(); row_tile < p.tiles; row_tile += grid_x()) {
    which = weight_of(p, row_tile, which);
    // The warps' sums side by side: [weight][warp][parity of tiles][column][row].
#pragma unroll 1
    for (uint32_t w = 0; w < kWeights; ++w) {
      float sums[2][4] = {};
#pragma unroll 1
      for (uint32_t unit = 0; unit < stream.count; unit += kUnits) {
        async_wait<kStreamStages - 1>();
        sync_warp();  // all lanes' copies are there
        const uint32_t left = stream.count - unit;
        add_stage(stream, stage, left < kUnits ? left : kUnits, start, sums);
        sync_warp();  // all have read the stage
        weights.copy(p, stream, columns.matrix, stage);
        activations.copy(p, stream, stage);
        async_commit();
        stage = stage + 1 == kStreamStages ? 0 : stage + 1;
      }
      if (w == 0 && turn > 0) sync_block();  // all sums of the tile before have been read
#pragma unroll
      for (uint32_t i = 0; i < 8; ++i) {
        const uint32_t to = (w * kParts + warp() * 2 + i / 4) * kPart + lane() / 4;
        parts[to + (2 * (lane() % 4) + i % 2) * 16 + i % 4 / 2 * 8] =
            sums[i / 4][i % 4] * Weights::kUnit;
      }
    }
    sync_block();
    // The warps take turns with a tile's first columns, which are often all there are.
    const uint32_t place = (thread() + turn * 32) % kProductThreads;
    const uint32_t tile = row_tile - p.weights[which].first_tile;
    const uint32_t c = place / 16;
    const uint32_t row = tile * 16 + place % 16;
    if (c < columns.count && row < p.weights[which].n) {
      float sum[kWeights];
#pragma unroll
      for (uint32_t w = 0; w < kWeights; ++w) {
        const uint32_t from = w * kParts * kPart + place;
        sum[w] = parts[from];
#pragma unroll
        for (uint32_t part = 1; part < kParts; ++part) {
          sum[w] = sum[w] + parts[from + part * kPart];
        }
      }
      finish(p, p.weights[which], p.weights[which + kWeights - 1], sum[0], sum[kWeights - 1],
             columns.matrix, column_of(p, columns, c), row);
    }
    ++turn;
  }
  async_wait<0>();
}

INFER_KERNEL_THAT_WAITS(INFER_JOIN(stream_, INFER_TYPE), ProductParams, kProductThreads, 2) {
  multiply_stream<1>(p);
}
INFER_KERNEL_THAT_WAITS(INFER_JOIN(INFER_JOIN(stream_, INFER_TYPE), _glu), ProductParams,
                        kProductThreads, 2) {
  multiply_stream<2>(p);
}

}  // namespace infer::cuda::INFER_TYPE
