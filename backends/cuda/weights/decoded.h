// Products of weights in the fragment layout (packing.h), decoded to float16, with the columns of
// prompts (ops/to_fragments.h): what the kernels for tensor cores share. Included after the header
// of a type.
//
// Weights and columns are copied into shared memory some stages of columns ahead. A warp decodes
// the weights of its rows in registers, 16 elements of K at a time; of a Glu, its tiles of rows are
// of the two weights in turns.
//
// In which order a product of tensor cores takes its 16 elements of K is the same for both of its
// matrices: here element 4t + 2h + i of 16 is where 8h + 2t + i would be, so that the four codes of
// a register are the lane's own.
//
// A sum takes 16 elements of K after the other in one accumulator: one order, however large the
// block is and however many columns there are.
#pragma once

#include "backends/cuda/weights/columns.h"
#include "backends/cuda/weights/decoded_tile.h"
#include "backends/cuda/weights/shared_units.h"
#include "backends/cuda/weights/stretch.h"

namespace infer::cuda::INFER_TYPE {

/// Tiles and units whose weights are copied together.
constexpr uint32_t kGroup = decoded_group(Weights::kTiles);
constexpr uint32_t kUnits = kGroup / Weights::kTiles;

/// What decodes the codes of two rows and a run: float16, those of the first row in the low half.
struct RunScales {
  uint32_t scale, least;
};
INFER_DEVICE RunScales run_scales(const float (&scale)[2], const float (&least)[2]) {
  // Levels are below 256: what is decoded stays finite.
  constexpr float kMost = 65504.0f / 2;
  const auto pair = [](const float(&values)[2], float factor, float most) {
    return limited_halves(values[0] * factor, values[1] * factor, most);
  };
  return {pair(scale, Weights::kUnit * kDecodedFactor, kMost / 256),
          Weights::kLeast ? pair(least, -kDecodedFactor, kMost) : 0};
}

/// Two bytes of four codes, signed ones plus 128, as weights; `select`: of permute(), which bytes.
/// `of`: two equal halves each.
INFER_DEVICE uint32_t decoded_pair(uint32_t codes, uint32_t select, const RunScales& of) {
  // 1024 + code, as float16.
  const uint32_t raised = permute(codes, 0x64646464u, select);
  const uint32_t levels = add_halves(raised, Weights::kUnsigned ? 0xe400e400u : 0xe480e480u);
  return Weights::kLeast ? fused_halves(levels, of.scale, of.least)
                         : multiply_halves(levels, of.scale);
}

/// What a lane has of a tile of 16 rows and 64 elements of K: codes, and the scales of its rows.
struct DecodedTile {
  static constexpr uint32_t kRuns = Weights::kRuns;
  uint32_t codes[8];
  float scales[2][kRuns];
  float leasts[2][kRuns] = {};

  INFER_DEVICE DecodedTile(const typename Weights::Raw& raw, uint32_t tile) {
    Weights::registers(raw, tile, 0, codes);
    Weights::scales(raw, tile, scales, leasts);
  }

  /// Registers of A (device/mma.h) of 16 elements of K, the `step`-th of four. Steps are unrolled,
  /// so that the scales of a run are computed once: together for both rows, which takes fewer
  /// instructions, or not, with which compilers use fewer registers.
  template <bool kTogether>
  INFER_DEVICE void decode(uint32_t step, uint32_t (&a)[4]) const {
    const uint32_t run = step * 16 / Weights::kRun;
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
      const uint32_t first = kTogether ? 0 : h;
      const uint32_t second = kTogether ? 1 : h;
      const RunScales both = run_scales({scales[first][run], scales[second][run]},
                                        {leasts[first][run], leasts[second][run]});
      const RunScales of =
          kTogether ? RunScales{twice_half(both.scale, h), twice_half(both.least, h)} : both;
      uint32_t own = codes[2 * step + h];
      if (!Weights::kUnsigned) own ^= 0x80808080u;
      a[h] = decoded_pair(own, 0x4140u, of);
      a[2 + h] = decoded_pair(own, 0x4342u, of);
    }
  }
};

/// The tiles of rows of a block: of a Glu, pairs of tiles have the same rows of the two weights.
template <typename Block, bool kGlu>
struct BlockRows {
  static constexpr uint32_t kShare = kGlu ? 2 : 1;
  const ProductParams& p;
  uint32_t which;

  INFER_DEVICE const MatrixParams& weight(uint32_t tile) const {
    return p.weights[kGlu ? tile % 2 : which];
  }
  /// Of tile `tile` of the block.
  INFER_DEVICE uint32_t row(uint32_t tile) const {
    const uint32_t first = (block_x() - p.weights[which].first_tile) * (Block::kTiles / kShare);
    return (first + tile / kShare) * 16;
  }
  /// The row of tiles of its weight: behind the last one that one again.
  INFER_DEVICE uint32_t held_row_tile(uint32_t tile) const {
    const uint32_t row_tiles = (weight(tile).n + 15) / 16;
    const uint32_t wanted = row(tile) / 16;
    return wanted < row_tiles ? wanted : row_tiles - 1;
  }
};

/// Copies what the warp has to of the weights' stage `stage`, into its place in shared memory.
template <typename Block, bool kGlu>
INFER_DEVICE void copy_weights(const BlockRows<Block, kGlu>& rows,
                               const SharedPtr<uint32_t>& weights, uint32_t stage, uint32_t units) {
  constexpr uint32_t kOwn = Block::kTiles / Block::kWarps;
  const uint32_t first_unit = stage * kUnits;
  const uint32_t given = units - first_unit < kUnits ? units - first_unit : kUnits;
#pragma unroll
  for (uint32_t n = 0; n < kOwn; ++n) {
    const uint32_t tile = warp() * kOwn + n;
    const MatrixParams& of = rows.weight(tile);
    uint64_t plane[Weights::kPlanes];
    find_units(of, uint64_t{rows.held_row_tile(tile)} * units + first_unit, plane);
    copy_units<kUnits>(
        weights,
        (stage % Block::weight_stages(kGroup) * Block::kTiles + tile) * (kUnits * unit_bytes() / 4),
        given, plane);
  }
}

/// What a block has to do, and how it copies it: `kAhead` stages of 64 elements of K ahead.
template <typename Block, bool kGlu>
struct DecodedBlockWork {
  static constexpr uint32_t kThreads = Block::kThreads;
  static constexpr uint32_t kPartWords = Block::kColumns * 4;  // of 8 of 16 elements of K
  static constexpr uint32_t kParts = 8;                        // of a stage
  static constexpr uint32_t kStageWords = kParts * kPartWords;
  static constexpr uint32_t kWeightBytes = kUnits * unit_bytes();  // of 16 rows
  static_assert(Block::kColumns <= kThreads);

  const DecodedTileParams& all;
  BlockRows<Block, kGlu> rows;
  uint32_t before, columns, first_column;
  uint32_t units;
  SharedPtr<uint32_t> activations;  ///< [stage][step][part][column][4]
  SharedPtr<uint32_t> weights;      ///< [stage][tile][weights]
  uint32_t part_from;               ///< byte of the thread's next 16 of columns
  uint32_t next = 0;                ///< stage to be copied

  INFER_DEVICE explicit DecodedBlockWork(const DecodedTileParams& params)
      : all(params),
        rows{params.product, weight_of(params.product, block_x(), 0)},
        before(step_rows(params.product.step, gpu::kGeneratedRows)),
        columns(step_rows(params.product.step, gpu::kTokenRows) - before),
        first_column(block_y() * Block::kColumns),
        units(units_of(params.product.k)),
        activations(dynamic_shared<uint32_t>(0, Block::kStages * kStageWords)),
        weights(dynamic_shared<uint32_t>(
            Block::kStages * kStageWords * 4,
            Block::weight_stages(kGroup) * Block::kTiles * kWeightBytes / 4)) {
    const uint32_t wanted = first_column + thread() % Block::kColumns;
    part_from =
        (wanted < columns ? wanted : columns - 1) * 16 + thread() / Block::kColumns * part_bytes();
  }

  INFER_DEVICE uint32_t tiles() const { return units * Weights::kTiles; }
  /// Bytes of 8 elements of K of all columns.
  INFER_DEVICE uint32_t part_bytes() const { return all.x.columns * 16; }

  /// Starts to copy the next stage.
  INFER_DEVICE void copy() {
    copy(next, next % kGroup == 0);
    ++next;
  }
  /// The same, whose number the caller counts: the thread has every kThreads-th 16 bytes of its
  /// columns. `with_weights`: it is a multiple of kGroup.
  INFER_DEVICE void copy(uint32_t stage, bool with_weights) {
    constexpr uint32_t kOwn = kParts * Block::kColumns / kThreads;
    if (stage < tiles()) {
      if (with_weights) copy_weights(rows, weights, stage / kGroup, units);
      const uint32_t to = stage % Block::kStages * kStageWords + thread() * 4;
#pragma unroll
      for (uint32_t n = 0; n < kOwn; ++n) {
        async_copy_16(activations, to + n * kThreads * 4,
                      Global<const uint32_t>(all.x.words + part_from), 0);
        part_from += kThreads / Block::kColumns * part_bytes();
      }
    }
    async_commit();
  }
  INFER_DEVICE static uint32_t place_after(uint32_t place) {
    return place + 1 == Block::kStages ? 0 : place + 1;
  }

  /// Byte of shared memory where the weights of a tile of the block are, of a tile along K.
  INFER_DEVICE uint32_t weights_at(uint32_t along_k, uint32_t tile) const {
    return (along_k / kGroup % Block::weight_stages(kGroup) * Block::kTiles + tile) * kWeightBytes;
  }

  /// Writes the results: `results` has sums by column and row.
  INFER_DEVICE void finish_all(const SharedPtr<float>& results) const {
    const ProductParams& p = all.product;
    const MatrixParams& of = p.weights[rows.which];
    constexpr uint32_t kShare = BlockRows<Block, kGlu>::kShare;
    constexpr uint32_t kResultRows = Block::kRows / kShare;
#pragma unroll 1
    for (uint32_t i = thread(); i < kResultRows * Block::kColumns; i += kThreads) {
      const uint32_t own = i % kResultRows;
      const uint32_t column = first_column + i / kResultRows;
      const uint32_t tile = own / 16 * kShare;
      const uint32_t row = rows.row(tile) + own % 16;
      if (column >= columns) break;
      if (row >= of.n) continue;
      const float back = Global<const float>(all.x.back)[column];
      const uint32_t at = i / kResultRows * Block::kSumsStep + tile * 16 + own % 16;
      const float up = kGlu ? results[at + 16] * back : 0.0f;
      finish(p, of, kGlu ? p.weights[1] : of, results[at] * back, up, 0, {0, before + column}, row);
    }
  }
};

}  // namespace infer::cuda::INFER_TYPE
