// Products of weights in the fragment layout (packing.h) with many columns, included after the
// header of a type by a generated unit that defines INFER_TYPE.
//
// A warp multiplies 16 rows with 64 columns; of a Glu, neighbours have the rows of its two weights.
// Weights come from memory as registers of A, a tile ahead: of a unit of several tiles only what
// the next one needs. The activations are bytes already (ops/to_bytes.h); all warps of a block read
// them from shared memory, where they are copied some tiles of K ahead.
//
// Sums have the order of weights/fragment_sums.h, whatever the number of columns. A warp takes the
// tiles of K in that order; a lane keeps what it has of the sums before in shared memory.
#include "backends/cuda/device/async_copy.h"
#include "backends/cuda/weights/fragment_sums.h"
#include "backends/cuda/weights/tile.h"

namespace infer::cuda::INFER_TYPE {

constexpr uint32_t kColumnTiles = kTileColumns / 8;

/// The tiles of K in the order of their sums: of each stretch the even ones, then the odd ones.
struct TileOrder {
  uint32_t tiles;  ///< all
  uint32_t each;   ///< of a stretch
  uint32_t begin = 0;
  uint32_t tile = 0;

  INFER_DEVICE bool given() const { return tile < tiles; }
  INFER_DEVICE void advance() {
    const uint32_t end = begin + each < tiles ? begin + each : tiles;
    const bool even = (tile - begin) % 2 == 0;
    tile += 2;
    if (tile < end) return;
    if (even && begin + 1 < end) {
      tile = begin + 1;
    } else {
      begin = tile = end;
    }
  }
};

/// The activations in shared memory, by stage.
struct Stages {
  SharedPtr<uint32_t> words;  ///< [column][lane of four][4]
  SharedPtr<float> scales;    ///< [column][4]
  SharedPtr<float> sums;      ///< [column][run]
};
INFER_DEVICE Stages stages_in_shared() {
  constexpr uint32_t kWords = kTileStages * kTileColumns * 16;
  constexpr uint32_t kScales = kTileStages * kTileColumns * 4;
  return {dynamic_shared<uint32_t>(0, kWords), dynamic_shared<float>(4 * kWords, kScales),
          dynamic_shared<float>(4 * (kWords + kScales), kTileStages * kTileColumns * kSumRuns)};
}

/// What a thread copies of every tile of K: quarter i % 4 of the words of column i / 4, for every
/// i = thread() + n · kThreads; the first kTileColumns threads, or all, scales and sums of columns.
/// Small blocks, and those of codes in two parts, have no registers for where that is: it stays in
/// shared memory. kWarps: those that copy; a block may have more.
template <uint32_t kWarps>
struct Copies {
  static constexpr uint32_t kThreads = 32 * kWarps;
  static constexpr uint32_t kWords = (4 * kTileColumns + kThreads - 1) / kThreads;
  static constexpr uint32_t kScales = (kTileColumns + kThreads - 1) / kThreads;
  static constexpr bool kInRegisters = kWords == 1 && Weights::kParts == 1;
  TileOrder next;
  uint32_t of_words[kInRegisters ? kWords : 1];    ///< bytes from a tile's first
  uint32_t of_scales[kInRegisters ? kScales : 1];  ///< columns from there
  SharedPtr<uint32_t> sources;

  INFER_DEVICE static bool has_words(uint32_t n) {
    return thread() < kThreads && thread() + n * kThreads < 4 * kTileColumns;
  }
  INFER_DEVICE uint32_t word_source(uint32_t n) const {
    return sources[(thread() + n * kThreads) / 4] * 64 + thread() % 4 * 16;
  }
  INFER_DEVICE uint32_t scale_source(uint32_t n) const {
    return sources[(thread() + n * kThreads) % kTileColumns];
  }
};
template <uint32_t kWarps>
INFER_DEVICE Copies<kWarps> copies_of(const TileOrder& order, const SharedPtr<uint32_t>& sources) {
  using Own = Copies<kWarps>;
  Own own{order, {}, {}, sources};
  if constexpr (Own::kInRegisters) {
#pragma unroll
    for (uint32_t n = 0; n < Own::kWords; ++n) {
      if (Own::has_words(n)) own.of_words[n] = own.word_source(n);
    }
#pragma unroll
    for (uint32_t n = 0; n < Own::kScales; ++n) own.of_scales[n] = own.scale_source(n);
  }
  return own;
}

/// Starts the copy of the next tile of K, if there is one, into a stage.
template <uint32_t kWarps>
INFER_DEVICE void copy_tile(const ColumnBytes& x, Copies<kWarps>& own, const Stages& to,
                            uint32_t stage) {
  using Own = Copies<kWarps>;
  if (!own.next.given()) return;
  const uint32_t first = stage * kTileColumns;
  const uint64_t from_column = uint64_t{own.next.tile} * x.columns;
#pragma unroll(Own::kInRegisters ? Own::kWords : 1)
  for (uint32_t n = 0; n < Own::kWords; ++n) {
    if (!Own::has_words(n)) break;
    const uint32_t from = Own::kInRegisters ? own.of_words[n] : own.word_source(n);
    async_copy_16(to.words, (first * 4 + thread() + n * Own::kThreads) * 4,
                  Global<const uint32_t>(x.words + from_column * 64 + from), 0);
  }
#pragma unroll
  for (uint32_t n = 0; n < Own::kScales; ++n) {
    const uint32_t c = thread() + n * Own::kThreads;
    if (c >= kTileColumns) break;
    const uint64_t column =
        from_column + (Own::kInRegisters ? own.of_scales[n] : own.scale_source(n));
    async_copy_16(to.scales, (first + c) * 4, Global<const float>(x.scales + column * 16), 0);
    const Global<const float> sums(x.sums + column * (4 * kSumRuns));
    if constexpr (kSumRuns == 2) async_copy_8(to.sums, (first + c) * 2, sums, 0);
    if constexpr (kSumRuns == 4) async_copy_16(to.sums, (first + c) * 4, sums, 0);
  }
  own.next.advance();
}

/// The tile of rows of a warp: of which weight, where there, and whether there is one.
struct RowTile {
  uint32_t which, tile;
  bool given;
};
template <bool kGlu>
INFER_DEVICE RowTile row_tile_of(const ProductParams& p) {
  const uint32_t own = block_x() * (threads() / 32) + warp();
  const uint32_t wanted = kGlu ? own / 2 : own;
  const uint32_t row_tile = wanted < p.tiles ? wanted : p.tiles - 1;
  const uint32_t which = weight_of(p, row_tile, 0);
  return {kGlu ? own % 2 : which, row_tile - p.weights[which].first_tile, wanted < p.tiles};
}

/// Adds the product of a tile of K with `count` columns. sums[j]: columns 8j … 8j + 7, as of
/// fragment_sums.h.
INFER_DEVICE void add_tile(const RowCodes& rows, const Stages& x, uint32_t stage, uint32_t count,
                           const Start& start, float (&sums)[kColumnTiles][4]) {
#pragma unroll
  for (uint32_t j = 0; j < kColumnTiles; ++j) {
    if (j > 0 && j % 2 == 0 && j * 8 >= count) break;  // experts often have few columns
    ColumnPart column;
    const uint32_t pair = stage * kTileColumns + j * 8 + lane() % 4 * 2;
    column.b = load_shared<uint4>(x.words, ((stage * kColumnTiles + j) * 32 + lane()) * 4);
#pragma unroll
    for (uint32_t c = 0; c < 2; ++c) {
      const float2 scales = load_shared<float2>(x.scales, (pair + c) * 4);
      column.scale[0][c] = scales.x;
      column.scale[1][c] = scales.y;
      column.raised[0][c] = raised_scale(scales.x);
      column.raised[1][c] = raised_scale(scales.y);
      load_sums(column.sum[c], x.sums, (pair + c) * kSumRuns);
    }
    add_runs(rows, column, start, sums[j]);
  }
}

template <bool kGlu, uint32_t kWarps>
INFER_DEVICE void multiply_tile(const ProductParams& p) {
  const Columns columns = columns_of(p);
  if (columns.count == 0) return;
  INFER_SHARED(uint32_t, sources, kTileColumns);
  INFER_SHARED(uint32_t, begins, 4);
  if (thread() < 4) begins[thread()] = kRaisedSum;
  for (uint32_t c = thread(); c < kTileColumns; c += threads()) {
    sources[c] = column_number(p, columns, c < columns.count ? c : columns.count - 1);
  }
  sync_block();
  const Stages x = stages_in_shared();
  const SharedPtr<float> before =
      dynamic_shared<float>(kTileStages * tile_stage_bytes(kSumRuns), threads() * kColumnTiles * 4);
  const uint32_t units = units_of(p.k);
  const uint32_t each = stretch_of(units, 0).end;
  TileOrder order{units * Weights::kTiles, each * Weights::kTiles};
  Copies<kWarps> copies = copies_of<kWarps>(order, sources);
#pragma unroll 1
  for (uint32_t stage = 0; stage + 1 < kTileStages; ++stage) {
    copy_tile(p.bytes, copies, x, stage);
    async_commit();
  }

  const RowTile row_tile = row_tile_of<kGlu>(p);
  const MatrixParams& own_weight = p.weights[row_tile.which];
  const CachedPlace own_place =
      cached(place_of<Weights>(own_weight.w, own_weight.planes,
                               columns.matrix * ((own_weight.n + 15) / 16) + row_tile.tile, units));
  typename Weights::Raw raw = Weights::load(own_place, 0);

  // From memory, so that the compiler does not make it anew for every product.
  const uint4 begin = load_shared<uint4>(begins, 0);
  const Start start{{static_cast<int32_t>(begin.x), static_cast<int32_t>(begin.y),
                     static_cast<int32_t>(begin.z), static_cast<int32_t>(begin.w)}};
  float sums[kColumnTiles][4] = {};
  // Adds the sums to those before them.
  uint32_t done = 0;
  const auto put = [&]() {
#pragma unroll
    for (uint32_t q = 0; q < kColumnTiles; ++q) {
      float(&own_sums)[4] = sums[q];
      const uint32_t at = (q * threads() + thread()) * 4;
      float4 sum{own_sums[0] * Weights::kUnit, own_sums[1] * Weights::kUnit,
                 own_sums[2] * Weights::kUnit, own_sums[3] * Weights::kUnit};
      if (done > 0) {
        const float4 others = load_shared<float4>(before, at);
        sum = {others.x + sum.x, others.y + sum.y, others.z + sum.z, others.w + sum.w};
      }
      store_shared<float4>(before, at, sum);
#pragma unroll
      for (float& s : own_sums) s = 0;
    }
    ++done;
  };
  // The tile is number `t` of its unit.
  uint32_t stage = 0;
  const auto add = [&](uint32_t t) {
    async_wait<kTileStages - 2>();
    sync_block();  // all have copied this tile, and read the one whose place is taken next
    copy_tile(p.bytes, copies, x, (stage + kTileStages - 1) % kTileStages);
    async_commit();
    const RowCodes codes = row_codes(raw, t);
    order.advance();
    raw = Weights::load(own_place, order.given() ? order.tile / Weights::kTiles : units - 1);
    add_tile(codes, x, stage, columns.count, start, sums);
    stage = (stage + 1) % kTileStages;
  };
  for (uint32_t begin = 0; begin < units; begin += each) {
    const uint32_t end = begin + each < units ? begin + each : units;
#pragma unroll(Weights::kTiles == 1 ? 1 : 2)
    for (uint32_t parity = 0; parity < 2; ++parity) {
      if constexpr (Weights::kTiles == 1) {
        if (begin + parity >= end) break;
        for (uint32_t unit = begin + parity; unit < end; unit += 2) add(0);
      } else {
        for (uint32_t unit = begin; unit < end; ++unit) {
#pragma unroll
          for (uint32_t t = 0; t < Weights::kTiles; t += 2) add(t + parity);
        }
      }
      put();
    }
  }

  if constexpr (kGlu) sync_block();  // the sums of both weights are there
  if (!row_tile.given) return;
  const uint32_t g = lane() / 4;
  const uint32_t t = lane() % 4;
  const uint32_t first_thread = kGlu ? thread() & ~32u : thread();
  const auto sum_of = [&](uint32_t of_thread, uint32_t j, uint32_t i) {
    const float sum = before[(j * threads() + of_thread) * 4 + i];
    return done < 2 * kProductWarps ? sum + 0.0f : sum;  // those without elements
  };
  // Two warps share the columns of a Glu.
  constexpr uint32_t kShare = kGlu ? 2 : 1;
#pragma unroll 1
  for (uint32_t at = kGlu ? warp() % 2 : 0; at < kColumnTiles * 2; at += kShare) {
    const uint32_t c = at / 2 * 8 + 2 * t + at % 2;
    if (c >= columns.count) continue;
    const Column column = column_of(p, columns, c);
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
      const uint32_t row = row_tile.tile * 16 + g + 8 * h;
      if (row >= own_weight.n) continue;
      const uint32_t i = 2 * h + at % 2;
      const float sum = sum_of(first_thread, at / 2, i);
      const float up = kGlu ? sum_of(first_thread + 32, at / 2, i) : 0.0f;
      finish(p, kGlu ? p.weights[0] : own_weight, kGlu ? p.weights[1] : own_weight, sum, up,
             columns.matrix, column, row);
    }
  }
}

INFER_KERNEL(INFER_JOIN(tile_, INFER_TYPE), ProductParams, 32 * kMostTileWarps, 1) {
  multiply_tile<false, kTileWarps>(p);
}
INFER_KERNEL(INFER_JOIN(INFER_JOIN(tile_, INFER_TYPE), _glu), ProductParams, 32 * kMostTileWarps,
             1) {
  multiply_tile<true, kTileWarps>(p);
}
// Few rows of weights, or few columns: more blocks.
INFER_KERNEL(INFER_JOIN(INFER_JOIN(tile_, INFER_TYPE), _few), ProductParams, 32 * kFewWarps, 4) {
  multiply_tile<false, kFewWarps>(p);
}
INFER_KERNEL(INFER_JOIN(INFER_JOIN(tile_, INFER_TYPE), _few_glu), ProductParams, 32 * kFewWarps,
             4) {
  multiply_tile<true, kFewWarps>(p);
}

}  // namespace infer::cuda::INFER_TYPE
