// Products of weights in the fragment layout (packing.h) with a single column, or with activations
// as they are, included after the header of a type by a generated unit that defines INFER_TYPE.
//
// A warp multiplies tiles of 16 rows and 64 elements of K with up to 8 columns: as many as there
// are cost the same. The warps of a block share out K in stretches; their sums are added in order.
// So the order of a row's sum follows from K alone.
//
// product_<type>, product_<type>_glu: activations are rounded to bytes, as weights/fragment_sums.h
// has it. The float kernels (product_<type>_float…) keep activations; a lane adds its elements of a
// row in K's order, then the four lanes of a row theirs.
#include "backends/cuda/device/column_bytes.h"
#include "backends/cuda/weights/fragment_sums.h"

namespace infer::cuda::INFER_TYPE {

/// What the threads of a block share about the columns.
struct ColumnStarts {
  SharedPtr<uint32_t> start;
  SharedPtr<float> factor;
};

/// Where a warp's stretch of K is, in tiles.
struct Stretch {
  uint32_t begin, end;
};
INFER_DEVICE Stretch stretch_of(uint32_t k, uint32_t part) {
  const uint32_t units = (k + 64 * Weights::kTiles - 1) / (64 * Weights::kTiles);
  const uint32_t each = (units + kProductWarps - 1) / kProductWarps;
  const uint32_t begin = part * each < units ? part * each : units;
  const uint32_t end = begin + each < units ? begin + each : units;
  return {begin * Weights::kTiles, end * Weights::kTiles};
}

/// The activations in shared memory: those of `chunk` tiles of each warp, which rounds its own.
struct Bytes {
  SharedPtr<uint32_t> words;  ///< [tile][column][lane of four][4]: registers of B of both products
  SharedPtr<float> scales;    ///< [tile][pair of columns][product][2]
  SharedPtr<float> sums;      ///< [tile][column][2][run]: of the activations (negative_parts())
};

INFER_DEVICE Bytes bytes_in_shared(uint32_t tiles, uint32_t columns) {
  const uint32_t pairs = product_pairs(columns);
  const uint32_t scales = tiles * 64 * columns;
  const uint32_t sums = scales + tiles * 16 * pairs;
  return {dynamic_shared<uint32_t>(0, tiles * 16 * columns),
          dynamic_shared<float>(scales, tiles * 4 * pairs),
          dynamic_shared<float>(sums, Weights::kLeast ? tiles * kRuns * 2 * columns : 0)};
}

/// The tiles of the warp's stretch in the chunk that begins `from` tiles into it.
INFER_DEVICE Stretch chunk_of_warp(const ProductParams& p, uint32_t from) {
  const Stretch stretch = stretch_of(p.k, warp());
  const uint32_t begin = stretch.begin + from < stretch.end ? stretch.begin + from : stretch.end;
  const uint32_t end = begin + p.chunk < stretch.end ? begin + p.chunk : stretch.end;
  return {begin, end};
}

/// A column of a tile. advance() goes on by columns, to the next tile after the last of `count`,
/// without a division.
struct TileColumn {
  uint32_t tile, column;

  INFER_DEVICE void advance(uint32_t by, uint32_t count) {
    column += by;
    while (column >= count) {
      column -= count;
      ++tile;
    }
  }
};

/// Rounds what the warp multiplies of the chunk that begins `from` tiles into its stretch. Sixteen
/// lanes take a tile's 64 elements of a column: eight lanes those of a product.
INFER_DEVICE void round_chunk(const ProductParams& p, const ColumnStarts& starts, uint32_t count,
                              const Bytes& to, uint32_t from) {
  const uint32_t pairs = product_pairs(count);
  const Stretch chunk = chunk_of_warp(p, from);
  const uint32_t first = warp() * p.chunk;  // in shared memory
  const uint32_t m = lane() / 8 % 2;
  const uint32_t part = lane() % 8;
  TileColumn own{0, 0};
  own.advance(lane() / 16, count);
  const uint32_t columns = (chunk.end - chunk.begin) * count;
  for (uint32_t base = 0; base < columns; base += 2, own.advance(2, count)) {
    const bool given = chunk.begin + own.tile < chunk.end;
    const uint32_t c = own.column;
    float4 x{0, 0, 0, 0};
    if (given) {
      const uint32_t k = (chunk.begin + own.tile) * 64 + m * 32 + part * 4;
      x = four_of_column(p, starts.start[c], k, starts.factor[c]);
    }
    const FourBytes four = bytes_of_four(x);
    const int32_t sum = Weights::kLeast ? sum_of_run(four.sum, Weights::kRun) : 0;
    if (!given) continue;
    const uint32_t tile = first + own.tile;
    to.words[((tile * count + c) * 4 + part % 4) * 4 + 2 * m + part / 4] = four.word;
    if (part == 0) {
      const SharedPtr<float> scales = to.scales + (tile * pairs + c / 2) * 4 + m * 2;
      scales[c % 2] = four.scale;
      // The last pair may have no second column.
      if (c % 2 == 0 && c + 1 == count) scales[1] = four.scale;
    }
    if constexpr (Weights::kLeast) {
      constexpr uint32_t kOfRun = Weights::kRun / 4;
      if (part % kOfRun == 0) {
        const float2 parts = negative_parts(four.scale * static_cast<float>(sum));
        const uint32_t run =
            (tile * count + c) * 2 * kRuns + m * (32 / Weights::kRun) + part / kOfRun;
        to.sums[run] = parts.x;
        to.sums[run + kRuns] = parts.y;
      }
    }
  }
}

/// As round_chunk(), of a single column that is bytes already.
INFER_DEVICE void bring_chunk(const ProductParams& p, const Bytes& to, uint32_t from) {
  const Stretch chunk = chunk_of_warp(p, from);
  const uint32_t first = warp() * p.chunk;  // in shared memory
  const uint32_t tiles = chunk.end - chunk.begin;
  const Global<const uint32_t> words(p.bytes.words);
  for (uint32_t i = lane(); i < tiles * 4; i += 32) {
    store_shared<uint4>(to.words, (first * 4 + i) * 4,
                        load_as<uint4>(words, (chunk.begin * 4 + i) * 4));
  }
  const Global<const float> scales(p.bytes.scales);
  for (uint32_t i = lane(); i < tiles; i += 32) {
    const float2 scale = load_as<float2>(scales, (chunk.begin + i) * 4);
    store_shared<float4>(to.scales, (first + i) * 4, float4{scale.x, scale.x, scale.y, scale.y});
  }
  if constexpr (Weights::kLeast) {
    const Global<const float> sums(p.bytes.sums);
    for (uint32_t i = lane(); i < tiles * kRuns / 2; i += 32) {
      store_shared<float4>(to.sums, first * 2 * kRuns + i * 4,
                           load_as<float4>(sums, chunk.begin * 2 * kRuns + i * 4));
    }
  }
}

/// What a lane reads of the activations, tile by tile.
struct LaneBytes {
  SharedPtr<uint32_t> words;
  SharedPtr<float> scales;
  SharedPtr<float> sums;  ///< of the tile's first column
  uint32_t words_step, scales_step;
  uint32_t own, pair[2];  ///< load_offsets()

  INFER_DEVICE void next() {
    words = words + words_step;
    scales = scales + scales_step;
    if constexpr (Weights::kLeast) sums = sums + words_step / 8 * kRuns;
  }
};
INFER_DEVICE LaneBytes lane_part(const Bytes& x, uint32_t tile, uint32_t count) {
  const uint32_t pairs = product_pairs(count);
  // Lanes of columns that are not there read those of the last one.
  const uint32_t column = lane() / 4 < count ? lane() / 4 : count - 1;
  const uint32_t own_pair = lane() % 4 < pairs ? lane() % 4 : pairs - 1;
  return {x.words + ((tile * count + column) * 4 + lane() % 4) * 4,
          x.scales + (tile * pairs + own_pair) * 4,
          x.sums + tile * count * 2 * kRuns,
          count * 16,
          pairs * 4,
          column * 2 * kRuns + lane() % 4,
          {2 * own_pair, 2 * own_pair + 1 < count ? 2 * own_pair + 1 : 2 * own_pair}};
}

/// sums[2h + j]: rows g + 8h, columns 2t + j of the lane. Adds the product of a tile.
INFER_DEVICE void add_tile(const typename Weights::Raw& raw, uint32_t tile, const LaneBytes& x,
                           const Start& start, uint32_t, float (&sums)[4]) {
  ColumnPart column;
  column.b = load_shared<uint4>(x.words, 0);
  const float4 scales = load_shared<float4>(x.scales, 0);
  column.scale[0][0] = scales.x;
  column.scale[0][1] = scales.y;
  column.scale[1][0] = scales.z;
  column.scale[1][1] = scales.w;
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    column.raised[i / 2][i % 2] = raised_scale(column.scale[i / 2][i % 2]);
  }
  if constexpr (Weights::kLeast) load_offsets(column, x.sums, x.own, x.pair);
  add_runs(row_codes(raw, tile), column, start, sums);
}

/// As round_chunk(), activations as they are: [tile][column][64].
INFER_DEVICE void copy_chunk(const ProductParams& p, const ColumnStarts& starts, uint32_t count,
                             const SharedPtr<float>& to, uint32_t from) {
  const Stretch chunk = chunk_of_warp(p, from);
  const uint32_t first = warp() * p.chunk;
  TileColumn own{0, 0};
  own.advance(lane() / 16, count);
  for (; chunk.begin + own.tile < chunk.end; own.advance(2, count)) {
    const uint32_t element = lane() % 16 * 4;
    const uint32_t k = (chunk.begin + own.tile) * 64 + element;
    const float4 x = four_of_column(p, starts.start[own.column], k, starts.factor[own.column]);
    const uint32_t at = ((first + own.tile) * count + own.column) * 64 + element;
    store_shared<float4>(to, int64_t{at}, x);
  }
}

struct LaneFloats {
  SharedPtr<float> values;
  uint32_t step;

  INFER_DEVICE void next() { values = values + step; }
};
INFER_DEVICE LaneFloats lane_part(const SharedPtr<float>& x, uint32_t tile, uint32_t count) {
  return {x + tile * count * 64 + lane() % 4 * 4, count * 64};
}

/// sums[2c + h]: the lane's part of row g + 8h in column c.
INFER_DEVICE void add_tile(const typename Weights::Raw& raw, uint32_t tile, const LaneFloats& x,
                           const Start&, uint32_t count, float (&sums)[2 * kFloatColumns]) {
  float v[8][4];
  Weights::values(raw, tile, v);
#pragma unroll
  for (uint32_t c = 0; c < kFloatColumns; ++c) {
    if (c >= count) break;
#pragma unroll
    for (uint32_t four = 0; four < 4; ++four) {
      const float4 a = load_shared<float4>(x.values, c * 64 + four * 16);
#pragma unroll
      for (uint32_t h = 0; h < 2; ++h) {
        float sum = sums[2 * c + h];
        sum = fused(v[2 * four + h][0], a.x, sum);
        sum = fused(v[2 * four + h][1], a.y, sum);
        sum = fused(v[2 * four + h][2], a.z, sum);
        sums[2 * c + h] = fused(v[2 * four + h][3], a.w, sum);
      }
    }
  }
}

/// Units of weights on their way to a warp.
constexpr uint32_t kAhead = sizeof(typename Weights::Raw) <= 24   ? 4
                            : sizeof(typename Weights::Raw) <= 48 ? 3
                                                                  : 2;

template <bool kInteger>
struct Kind;
template <>
struct Kind<true> {
  using Activations = Bytes;
  static constexpr uint32_t kSums = 4;
  static constexpr uint32_t kColumns = kProductColumns;
};
template <>
struct Kind<false> {
  using Activations = SharedPtr<float>;
  static constexpr uint32_t kSums = 2 * kFloatColumns;
  static constexpr uint32_t kColumns = kFloatColumns;
};

/// `count` units of a warp from `place` on, of one row of tiles; `x`: their activations. The first
/// kAhead units are in `raw`, or on their way.
template <typename Activations, uint32_t kSums>
INFER_DEVICE void add_units(typename Weights::Raw (&raw)[kAhead], Place place, uint32_t count,
                            Activations x, const Start& start, uint32_t columns,
                            float (&sums)[kSums]) {
  for (uint32_t unit = 0; unit < count; unit += kAhead) {
#pragma unroll
    for (uint32_t a = 0; a < kAhead; ++a) {
      if (unit + a < count) {
#pragma unroll
        for (uint32_t tile = 0; tile < Weights::kTiles; ++tile) {
          add_tile(raw[a], tile, x, start, columns, sums);
          x.next();
        }
        if (unit + a + kAhead < count) raw[a] = Weights::load(place, a + kAhead);
      }
    }
    advance<Weights>(place, kAhead);
  }
}

/// Tiles of rows that a block computes one after the other: of two come the 32 results of a piece
/// of bytes.
template <uint32_t kWeights>
INFER_DEVICE uint32_t tiles_together(const ProductParams& p) {
  return kWeights == 2 && p.results.words != 0 ? 2 : 1;
}

template <bool kInteger, uint32_t kWeights>
INFER_DEVICE void multiply(const ProductParams& p) {
  using OfKind = Kind<kInteger>;
  constexpr uint32_t kPart = 16 * OfKind::kColumns;  // sums of a warp
  const Columns columns = columns_of(p);
  if (columns.count == 0) return;
  INFER_SHARED(uint32_t, starts, OfKind::kColumns);
  INFER_SHARED(float, factors, OfKind::kColumns);
  INFER_SHARED(float, parts, 2 * kProductWarps * kPart * kWeights);
  INFER_SHARED(float, made, 32);
  const uint32_t count = columns.count;
  if (thread() < count) starts[thread()] = column_start(p, columns, thread());
  if (p.normed != 0) {
    for (uint32_t c = 0; c < count; ++c) {
      const float factor =
          norm_factor(Global<const float>(p.x), column_start(p, columns, c), p.k, p.eps);
      if (thread() == 0) factors[c] = factor;
    }
  } else if (thread() < count) {
    factors[thread()] = 1.0f;
  }
  sync_block();
  const ColumnStarts of_columns{starts, factors};

  const Stretch stretch = stretch_of(p.k, warp());
  const uint32_t units = (p.k + 64 * Weights::kTiles - 1) / (64 * Weights::kTiles);
  const uint32_t first_unit = stretch.begin / Weights::kTiles;
  const uint32_t end_unit = stretch.end / Weights::kTiles;
  const Stretch longest = stretch_of(p.k, 0);
  const uint32_t chunks = (longest.end + p.chunk - 1) / p.chunk;
  const uint32_t chunk_units = p.chunk / Weights::kTiles;
  typename OfKind::Activations x = [&] {
    if constexpr (kInteger) {
      return bytes_in_shared(kProductWarps * p.chunk, count);
    } else {
      return dynamic_shared<float>(0, kProductWarps * p.chunk * count * 64);
    }
  }();
  const auto bring = [&](uint32_t chunk) {
    if constexpr (kInteger) {
      if (p.bytes.words != 0) {
        bring_chunk(p, x, chunk * p.chunk);
      } else {
        round_chunk(p, of_columns, count, x, chunk * p.chunk);
      }
    } else {
      copy_chunk(p, of_columns, count, x, chunk * p.chunk);
    }
  };

  const Start start{
      {opaque(kRaisedSum), opaque(kRaisedSum), opaque(kRaisedSum), opaque(kRaisedSum)}};
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
    // The warps' sums side by side: [weight][warp][column][row].
    const SharedPtr<float> own = parts + turn * kProductWarps * kPart * kWeights;
    // One weight after the other: more blocks find room in a multiprocessor.
#pragma unroll 1
    for (uint32_t w = 0; w < kWeights; ++w) {
      const MatrixParams& of = p.weights[which + w];
      float sums[OfKind::kSums] = {};
      Place place = place_of<Weights>(of.w, of.planes, stored, units);
      advance<Weights>(place, first_unit);
      for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
        const uint32_t begin = first_unit + chunk * chunk_units;
        const uint32_t behind = begin + chunk_units;
        const uint32_t end = behind < end_unit ? behind : end_unit;
        const uint32_t of_chunk = begin < end ? end - begin : 0;
        // On their way while the activations are rounded.
        typename Weights::Raw raw[kAhead];
#pragma unroll
        for (uint32_t a = 0; a < kAhead; ++a) {
          if (a < of_chunk) raw[a] = Weights::load(place, a);
        }
        if (held != chunk) {
          sync_warp();  // all have read the chunk before
          bring(chunk);
          held = chunk;
          sync_warp();
        }
        add_units(raw, place, of_chunk, lane_part(x, warp() * p.chunk, count), start, count, sums);
        advance<Weights>(place, chunk_units);
      }
      const uint32_t g = lane() / 4;
      const uint32_t t = lane() % 4;
      const uint32_t to = (w * kProductWarps + warp()) * kPart + g;
      if constexpr (kInteger) {
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
          own[to + (2 * t + i % 2) * 16 + i / 2 * 8] = sums[i] * Weights::kUnit;
        }
      } else {
#pragma unroll
        for (uint32_t i = 0; i < OfKind::kSums; ++i) {
          float sum = sums[i];
          sum = sum + shuffle_xor(sum, 1);
          sum = sum + shuffle_xor(sum, 2);
          if (t == 0) own[to + i / 2 * 16 + i % 2 * 8] = sum;
        }
      }
    }
    sync_block();
    const uint32_t c = thread() / 16;
    const uint32_t row = tile * 16 + thread() % 16;
    if (c < count && row < n) {
      float all[kWeights];
#pragma unroll
      for (uint32_t w = 0; w < kWeights; ++w) {
        const uint32_t from = w * kProductWarps * kPart + thread();
        float sum = own[from];
        for (uint32_t part = 1; part < kProductWarps; ++part) sum = sum + own[from + part * kPart];
        all[w] = sum;
      }
      const MatrixParams& of = p.weights[which];
      const MatrixParams& second = p.weights[which + kWeights - 1];
      const Column column = column_of(p, columns, c);
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
  const uint32_t units = (p.k + 64 * Weights::kTiles - 1) / (64 * Weights::kTiles);
  const Stretch stretch = stretch_of(p.k, warp());
  const uint32_t first = stretch.begin / Weights::kTiles;
  const uint32_t count = stretch.end / Weights::kTiles - first;
#pragma unroll
  for (uint32_t w = 0; w < kWeights; ++w) {
    const MatrixParams& of = p.weights[which + w];
    Place place = place_of<Weights>(of.w, of.planes, tile, units);
    advance<Weights>(place, first);
#pragma unroll
    for (uint32_t a = 0; a < kAhead; ++a) {
      if (a < count) (void)Weights::load(asked(place), a);
    }
  }
}

INFER_KERNEL_AHEAD(INFER_JOIN(product_, INFER_TYPE), ProductParams, kProductThreads, 2,
                   ask_for_first<1>) {
  multiply<true, 1>(p);
}
INFER_KERNEL_AHEAD(INFER_JOIN(INFER_JOIN(product_, INFER_TYPE), _glu), ProductParams,
                   kProductThreads, 2, ask_for_first<2>) {
  multiply<true, 2>(p);
}
INFER_KERNEL_AHEAD(INFER_JOIN(INFER_JOIN(product_, INFER_TYPE), _float), ProductParams,
                   kProductThreads, 1, ask_for_first<1>) {
  multiply<false, 1>(p);
}
INFER_KERNEL_AHEAD(INFER_JOIN(INFER_JOIN(product_, INFER_TYPE), _float_glu), ProductParams,
                   kProductThreads, 1, ask_for_first<2>) {
  multiply<false, 2>(p);
}

}  // namespace infer::cuda::INFER_TYPE
