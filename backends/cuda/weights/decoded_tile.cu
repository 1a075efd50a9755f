// Products of weights in the fragment layout (packing.h) with the columns of prompts on tensor
// cores of float16, included after the header of a type by a generated unit that defines
// INFER_TYPE.
//
// Weights and columns (ops/to_fragments.h) are copied into shared memory two stages of columns
// ahead. A warp decodes the weights of its rows in registers, 16 elements of K at a time, and
// multiplies them with all its columns; of a Glu, its tiles of rows are of the two weights in
// turns.
//
// In which order a product of tensor cores takes its 16 elements of K is the same for both of its
// matrices: here element 4t + 2h + i of 16 is where 8h + 2t + i would be, so that the four codes of
// a register are the lane's own.
//
// A sum takes 16 elements of K after the other in one accumulator: one order, however large the
// block is and however many columns there are.
#include "backends/cuda/device/mma.h"
#include "backends/cuda/weights/columns.h"
#include "backends/cuda/weights/decoded_tile.h"
#include "backends/cuda/weights/shared_units.h"

namespace infer::cuda::INFER_TYPE {

/// Tiles and units whose weights are copied together.
constexpr uint32_t kGroup = decoded_group(Weights::kTiles);
constexpr uint32_t kUnits = kGroup / Weights::kTiles;

/// What decodes the codes of a row and a run: a pair of equal float16 each.
struct RunScale {
  uint32_t scale, least;
};
INFER_DEVICE RunScale run_scale(float scale, float least) {
  // Levels are below 256: what is decoded stays finite.
  constexpr float kMost = 65504.0f / 2;
  const auto pair = [](float value, float most) {
    const float limited = least_of(most_of(value, -most), most);
    return packed_halves(limited, limited);
  };
  return {pair(scale * (Weights::kUnit * kDecodedFactor), kMost / 256),
          Weights::kLeast ? pair(-least * kDecodedFactor, kMost) : 0};
}

/// Two bytes of four codes, signed ones plus 128, as weights; `select`: of permute(), which bytes.
INFER_DEVICE uint32_t decoded_pair(uint32_t codes, uint32_t select, const RunScale& of) {
  // 1024 + code, as float16.
  const uint32_t raised = permute(codes, 0x64646464u, select);
  const uint32_t levels = add_halves(raised, Weights::kUnsigned ? 0xe400e400u : 0xe480e480u);
  return Weights::kLeast ? fused_halves(levels, of.scale, of.least)
                         : multiply_halves(levels, of.scale);
}

/// Registers of A of 16 elements of K of a tile, the `step`-th of four.
INFER_DEVICE void decode_step(const typename Weights::Raw& raw, uint32_t tile, uint32_t step,
                              uint32_t (&a)[4]) {
  constexpr uint32_t kRuns = 64 / Weights::kRun;
  uint32_t codes[8];
  Weights::codes(raw, tile, 0, codes);
  float scales[2][kRuns];
  float leasts[2][kRuns] = {};
  scales_of<Weights>(raw, tile, scales, leasts);
#pragma unroll
  for (uint32_t h = 0; h < 2; ++h) {
    const uint32_t run = step * 16 / Weights::kRun;
    const RunScale of = run_scale(scales[h][run], leasts[h][run]);
    uint32_t own = codes[2 * step + h];
    if (!Weights::kUnsigned) own ^= 0x80808080u;
    a[h] = decoded_pair(own, 0x4140u, of);
    a[2 + h] = decoded_pair(own, 0x4342u, of);
  }
}

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
    const uint32_t row_tiles = (of.n + 15) / 16;
    const uint32_t wanted = rows.row(tile) / 16;
    uint64_t plane[Weights::kPlanes];
    find_units(of, uint64_t{wanted < row_tiles ? wanted : row_tiles - 1} * units + first_unit,
               plane);
    copy_units<kUnits>(
        weights,
        (stage % Block::weight_stages(kGroup) * Block::kTiles + tile) * (kUnits * unit_bytes() / 4),
        given, plane);
  }
}

template <typename Block, bool kGlu>
INFER_DEVICE void multiply_decoded(const DecodedTileParams& all) {
  constexpr uint32_t kThreads = Block::kThreads;
  constexpr uint32_t kDown = Block::kTilesDown;
  constexpr uint32_t kAcross = Block::kTilesAcross;
  constexpr uint32_t kPartWords = Block::kColumns * 4;      // of 8 of 16 elements of K
  constexpr uint32_t kParts = 8;                            // of a stage
  constexpr uint32_t kWeightBytes = kUnits * unit_bytes();  // of 16 rows
  const ProductParams& p = all.product;
  const uint32_t before = step_rows(p.step, gpu::kGeneratedRows);
  const uint32_t columns = step_rows(p.step, gpu::kTokenRows) - before;
  const uint32_t first_column = block_y() * Block::kColumns;
  if (first_column >= columns) return;
  const BlockRows<Block, kGlu> rows{p, weight_of(p, block_x(), 0)};
  const MatrixParams& of = p.weights[rows.which];
  const uint32_t units = (p.k + 64 * Weights::kTiles - 1) / (64 * Weights::kTiles);
  const uint32_t tiles = units * Weights::kTiles;
  // [stage][step][part][column][4]
  const SharedPtr<uint32_t> activations =
      dynamic_shared<uint32_t>(0, Block::kStages * kParts * kPartWords);
  // [stage][tile][weights]
  const SharedPtr<uint32_t> weights =
      dynamic_shared<uint32_t>(Block::kStages * kParts * kPartWords * 4,
                               Block::weight_stages(kGroup) * Block::kTiles * kWeightBytes / 4);

  // The thread copies every kThreads-th 16 bytes of a stage of columns.
  static_assert(Block::kColumns <= kThreads);
  constexpr uint32_t kOwn = kParts * Block::kColumns / kThreads;
  const uint32_t wanted = first_column + thread() % Block::kColumns;
  const uint32_t part_step = all.x.columns * 16;
  uint32_t part_from =
      (wanted < columns ? wanted : columns - 1) * 16 + thread() / Block::kColumns * part_step;
  uint32_t next = 0;
  const auto copy = [&]() {
    if (next < tiles) {
      if (next % kGroup == 0) copy_weights(rows, weights, next / kGroup, units);
      const uint32_t to = next % Block::kStages * kParts * kPartWords + thread() * 4;
#pragma unroll
      for (uint32_t n = 0; n < kOwn; ++n) {
        async_copy_16(activations, to + n * kThreads * 4,
                      Global<const uint32_t>(all.x.words + part_from), 0);
        part_from += kThreads / Block::kColumns * part_step;
      }
    }
    async_commit();
    ++next;
  };
#pragma unroll 1
  for (uint32_t stage = 0; stage + 1 < Block::kStages; ++stage) copy();

  const uint32_t first_tile = warp() * kDown;  // of the block's
  // The lane's row of four matrices: both parts of 8 columns, and of the next 8.
  const uint32_t b_at = lane() / 8 % 2 * kPartWords + (lane() / 16 * 8 + lane() % 8) * 4;
  float sums[kDown][kAcross][4] = {};
#pragma unroll 1
  for (uint32_t group = 0; group < tiles; group += kGroup) {
    const uint32_t weights_at =
        (group / kGroup % Block::weight_stages(kGroup) * Block::kTiles + first_tile) * kWeightBytes;
#pragma unroll
    for (uint32_t t = 0; t < kGroup; ++t) {
      if (Weights::kTiles < kGroup && group + t >= tiles) break;
      async_wait<Block::kStages - 2>();
      sync_block();  // all have copied this stage, and read the one whose place is taken next
      copy();
      const uint32_t stage_at = (group + t) % Block::kStages * kParts * kPartWords;
      typename Weights::Raw raw[kDown];
#pragma unroll
      for (uint32_t r = 0; r < kDown; ++r) {
        raw[r] = Weights::load(shared_place<kUnits>(weights, weights_at + r * kWeightBytes),
                               t / Weights::kTiles);
      }
#pragma unroll
      for (uint32_t step = 0; step < 4; ++step) {
        uint32_t a[kDown][4];
#pragma unroll
        for (uint32_t r = 0; r < kDown; ++r) {
          decode_step(raw[r], t % Weights::kTiles, step, a[r]);
        }
#pragma unroll
        for (uint32_t c = 0; c < kAcross; c += 2) {
          uint32_t b[4];
          load_matrices(b, activations, stage_at + b_at + step * 2 * kPartWords + c * 32);
#pragma unroll
          for (uint32_t r = 0; r < kDown; ++r) {
            mma_f16(sums[r][c], a[r], {b[0], b[1]}, sums[r][c]);
            mma_f16(sums[r][c + 1], a[r], {b[2], b[3]}, sums[r][c + 1]);
          }
        }
      }
    }
  }

  async_wait<0>();
  sync_block();  // all have read the last stage
  constexpr uint32_t kStep = Block::kSumsStep;
  const SharedPtr<float> results = dynamic_shared<float>(0, Block::kColumns * kStep);
#pragma unroll
  for (uint32_t r = 0; r < kDown; ++r) {
#pragma unroll
    for (uint32_t c = 0; c < kAcross; ++c) {
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t column = c * 8 + lane() % 4 * 2 + i % 2;
        const uint32_t row = (first_tile + r) * 16 + lane() / 4 + i / 2 * 8;
        results[column * kStep + row] = sums[r][c][i];
      }
    }
  }
  sync_block();
  constexpr uint32_t kResultRows = Block::kRows / rows.kShare;
#pragma unroll 1
  for (uint32_t i = thread(); i < kResultRows * Block::kColumns; i += kThreads) {
    const uint32_t own = i % kResultRows;
    const uint32_t column = first_column + i / kResultRows;
    const uint32_t tile = own / 16 * rows.kShare;
    const uint32_t row = rows.row(tile) + own % 16;
    if (column >= columns) break;
    if (row >= of.n) continue;
    const float back = Global<const float>(all.x.back)[column];
    const uint32_t at = i / kResultRows * kStep + tile * 16 + own % 16;
    const float up = kGlu ? results[at + 16] * back : 0.0f;
    finish(p, of, kGlu ? p.weights[1] : of, results[at] * back, up, 0, {0, before + column}, row);
  }
}

// GPUs that prefer products of bytes (half_product.cpp) have no code for these.
#if !defined(INFER_CUDA_CHOSEN) || !defined(__CUDA_ARCH__) || \
    (__CUDA_ARCH__ != 860 && __CUDA_ARCH__ != 890 && __CUDA_ARCH__ != 1200)
#define INFER_DECODED_TILES(name, Block, blocks)                                     \
  INFER_KERNEL(name, DecodedTileParams, Block::kThreads, blocks) {                   \
    multiply_decoded<Block, false>(p);                                               \
  }                                                                                  \
  INFER_KERNEL(INFER_JOIN(name, _glu), DecodedTileParams, Block::kThreads, blocks) { \
    multiply_decoded<Block, true>(p);                                                \
  }
INFER_DECODED_TILES(INFER_JOIN(decoded_tile_, INFER_TYPE), LargeDecodedBlock, 2)
INFER_DECODED_TILES(INFER_JOIN(INFER_JOIN(decoded_tile_, INFER_TYPE), _64), SmallDecodedBlock, 6)
INFER_DECODED_TILES(INFER_JOIN(INFER_JOIN(decoded_tile_, INFER_TYPE), _16), NarrowDecodedBlock, 8)
#endif

}  // namespace infer::cuda::INFER_TYPE
