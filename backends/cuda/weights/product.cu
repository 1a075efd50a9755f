// Products of weights in the fragment layout (packing.h) with up to kFloatColumns columns of
// activations as they are; included after the header of a type by a generated unit that defines
// INFER_TYPE.
//
// A warp multiplies tiles of 16 rows and 64 elements of K. A lane adds its elements of a row in K's
// order, then the four lanes of a row theirs. The warps of a block share out K in stretches; their
// sums are added in order. So the order of a row's sum follows from K alone.
#include "backends/cuda/weights/columns.h"
#include "backends/cuda/weights/fragments.h"
#include "backends/cuda/weights/stretch.h"

namespace infer::cuda::INFER_TYPE {

/// What the threads of a block share about the columns.
struct ColumnStarts {
  SharedPtr<uint32_t> start;
  SharedPtr<float> factor;
};

/// Copies `tiles` tiles of the columns from `tile` on, to tile `to` of shared memory:
/// [tile][column][64]. Sixteen lanes take a tile's elements of a column.
INFER_DEVICE void copy_tiles(const ProductParams& p, const ColumnStarts& starts, uint32_t count,
                             const SharedPtr<float>& x, uint32_t tile, uint32_t tiles,
                             uint32_t to) {
  const uint32_t element = lane() % 16 * 4;
  for (uint32_t i = lane() / 16; i < tiles * count; i += 2) {
    const uint32_t c = i % count;
    const uint32_t k = (tile + i / count) * 64 + element;
    store_shared<float4>(x, int64_t{(to * count + i) * 64 + element},
                         four_of_column(p, starts.start[c], k, starts.factor[c]));
  }
}

/// sums[2c + h]: the lane's part of row g + 8h in column c. `at`: of its first activations.
INFER_DEVICE void add_tile(const typename Weights::Raw& raw, uint32_t tile,
                           const SharedPtr<float>& x, uint32_t at, uint32_t count,
                           float (&sums)[2 * kFloatColumns]) {
  float v[8][4];
  Weights::values(raw, tile, v);
#pragma unroll
  for (uint32_t c = 0; c < kFloatColumns; ++c) {
    if (c >= count) break;
#pragma unroll
    for (uint32_t four = 0; four < 4; ++four) {
      const float4 a = load_shared<float4>(x, at + c * 64 + four * 16);
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

/// `count` units of a warp from `place` on, of one row of tiles; `at`: of their activations. The
/// first kAhead units are in `raw`, or on their way.
INFER_DEVICE void add_units(typename Weights::Raw (&raw)[kAhead], Place place, uint32_t count,
                            const SharedPtr<float>& x, uint32_t at, uint32_t columns,
                            float (&sums)[2 * kFloatColumns]) {
  for (uint32_t unit = 0; unit < count; unit += kAhead) {
#pragma unroll
    for (uint32_t a = 0; a < kAhead; ++a) {
      if (unit + a < count) {
#pragma unroll
        for (uint32_t tile = 0; tile < Weights::kTiles; ++tile) {
          add_tile(raw[a], tile, x, at, columns, sums);
          at += columns * 64;
        }
        if (unit + a + kAhead < count) raw[a] = Weights::load(place, a + kAhead);
      }
    }
    advance<Weights>(place, kAhead);
  }
}

template <uint32_t kWeights>
INFER_DEVICE void multiply(const ProductParams& p) {
  constexpr uint32_t kPart = 16 * kFloatColumns;  // sums of a warp
  const Columns columns = columns_of(p);
  if (columns.count == 0) return;
  INFER_SHARED(uint32_t, starts, kFloatColumns);
  INFER_SHARED(float, factors, kFloatColumns);
  INFER_SHARED(float, parts, 2 * kProductWarps * kPart * kWeights);
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

  const uint32_t units = units_of(p.k);
  const Stretch stretch = stretch_of(units, warp());
  const uint32_t chunk_units = p.chunk / Weights::kTiles;
  const uint32_t longest = stretch_of(units, 0).end;
  const uint32_t chunks = (longest + chunk_units - 1) / chunk_units;
  const SharedPtr<float> x = dynamic_shared<float>(0, kProductWarps * p.chunk * count * 64);
  const uint32_t first_tile = warp() * p.chunk;  // in shared memory

  uint32_t which = 0;
  uint32_t turn = 0;
  uint32_t held = chunks;  // the chunk in shared memory: none
  for (uint32_t row_tile = block_x(); row_tile < p.tiles; row_tile += grid_x()) {
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
      float sums[2 * kFloatColumns] = {};
      Place place = place_of<Weights>(of.w, of.planes, stored, units);
      advance<Weights>(place, stretch.begin);
      for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
        const uint32_t begin = stretch.begin + chunk * chunk_units;
        const uint32_t behind = begin + chunk_units;
        const uint32_t end = behind < stretch.end ? behind : stretch.end;
        const uint32_t of_chunk = begin < end ? end - begin : 0;
        // On their way while the activations are copied.
        typename Weights::Raw raw[kAhead];
#pragma unroll
        for (uint32_t a = 0; a < kAhead; ++a) {
          if (a < of_chunk) raw[a] = Weights::load(place, a);
        }
        if (held != chunk) {
          sync_warp();  // all have read the chunk before
          copy_tiles(p, of_columns, count, x, begin * Weights::kTiles, of_chunk * Weights::kTiles,
                     first_tile);
          held = chunk;
          sync_warp();
        }
        add_units(raw, place, of_chunk, x, first_tile * count * 64 + lane() % 4 * 4, count, sums);
        advance<Weights>(place, chunk_units);
      }
      const uint32_t to = (w * kProductWarps + warp()) * kPart + lane() / 4;
#pragma unroll
      for (uint32_t i = 0; i < 2 * kFloatColumns; ++i) {
        float sum = sums[i];
        sum = sum + shuffle_xor(sum, 1);
        sum = sum + shuffle_xor(sum, 2);
        if (lane() % 4 == 0) own[to + i / 2 * 16 + i % 2 * 8] = sum;
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
      finish(p, p.weights[which], p.weights[which + kWeights - 1], all[0], all[kWeights - 1],
             columns.matrix, column_of(p, columns, c), row);
    }
    turn ^= 1;
  }
}

/// Asks for the weights that the warp loads first, while a norm is computed.
template <uint32_t kWeights>
INFER_DEVICE void ask_for_first(const ProductParams& p) {
  // Which expert comes first is not known yet.
  if (p.matrix != kMatrixOnly || block_x() >= p.tiles) return;
  if (!kBeginsEarly && p.normed == 0) return;
  const uint32_t which = weight_of(p, block_x(), 0);
  const uint32_t tile = block_x() - p.weights[which].first_tile;
  const uint32_t units = units_of(p.k);
  const Stretch stretch = stretch_of(units, warp());
#pragma unroll
  for (uint32_t w = 0; w < kWeights; ++w) {
    const MatrixParams& of = p.weights[which + w];
    Place place = place_of<Weights>(of.w, of.planes, tile, units);
    advance<Weights>(place, stretch.begin);
#pragma unroll
    for (uint32_t a = 0; a < kAhead; ++a) {
      if (stretch.begin + a < stretch.end) (void)Weights::load(asked(place), a);
    }
  }
}

INFER_KERNEL_AHEAD(INFER_JOIN(product_, INFER_TYPE), ProductParams, kProductThreads, 1,
                   ask_for_first<1>) {
  multiply<1>(p);
}
INFER_KERNEL_AHEAD(INFER_JOIN(INFER_JOIN(product_, INFER_TYPE), _glu), ProductParams,
                   kProductThreads, 1, ask_for_first<2>) {
  multiply<2>(p);
}

}  // namespace infer::cuda::INFER_TYPE
