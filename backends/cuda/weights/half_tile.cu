// Products of weights of 16 bits with the columns of prompts on tensor cores, included after the
// header of a type by a generated unit that defines INFER_TYPE.
//
// Weights (backends/gpu/weight_layout.h) and activations (ops/to_halves.h) lie in units of 8
// elements of neighbouring rows and columns, in memory as in shared memory: eight of them are a
// matrix that a warp loads at once, from all banks. Copies run two stages ahead.
//
// A sum takes 16 elements of K after the other, the first parts of activations before the second,
// in one accumulator: one order, however large the block is and however many columns there are.
#include "backends/cuda/device/async_copy.h"
#include "backends/cuda/device/mma.h"
#include "backends/cuda/weights/columns.h"
#include "backends/cuda/weights/half_tile.h"

namespace infer::cuda::INFER_TYPE {

constexpr uint32_t kParts = kHalfParts;
constexpr uint32_t kUnits = kHalfDepth / 8;  // of a stage

INFER_DEVICE void multiply_add(float (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  if constexpr (kBrains) {
    mma_bf16(sums, a, b, sums);
  } else {
    mma_f16(sums, a, b, sums);
  }
}

template <typename Block>
INFER_DEVICE void multiply(const HalfTileParams& all) {
  constexpr uint32_t kThreads = Block::kThreads;
  constexpr uint32_t kDown = Block::kTilesDown;
  constexpr uint32_t kAcross = Block::kPairsAcross;
  constexpr uint32_t kWeightWords = kUnits * Block::kRows * 4;  // of a stage
  constexpr uint32_t kColumnWords = kUnits * kParts * Block::kColumns * 4;
  const ProductParams& p = all.product;
  const uint32_t before = step_rows(p.step, gpu::kGeneratedRows);
  const uint32_t columns = step_rows(p.step, gpu::kTokenRows) - before;
  const uint32_t first_column = block_y() * Block::kColumns;
  if (first_column >= columns) return;
  uint32_t which = 0;
  while (which + 1 < p.weight_count && block_x() >= p.weights[which + 1].first_tile) ++which;
  const MatrixParams& of = p.weights[which];
  const uint32_t first_row = (block_x() - of.first_tile) * Block::kRows;
  const SharedPtr<uint32_t> weights =
      dynamic_shared<uint32_t>(0, kHalfStages * kWeightWords);  // [stage][unit][row][4]
  const SharedPtr<uint32_t> activations =
      dynamic_shared<uint32_t>(kHalfStages * kWeightWords * 4,
                               kHalfStages * kColumnWords);  // [stage][unit][part][column][4]

  const uint32_t stages = (p.k + kHalfDepth - 1) / kHalfDepth;
  const uint32_t groups = (of.n + 31) / 32;  // of rows that lie side by side
  // The thread copies every kThreads-th 16 bytes of a stage.
  constexpr uint32_t kOwnWeights = kUnits * Block::kRows / kThreads;
  constexpr uint32_t kOwnColumns = kUnits * kParts * Block::kColumns / kThreads;
  uint64_t weight_at[kOwnWeights];
  uint64_t column_at[kOwnColumns];
#pragma unroll
  for (uint32_t n = 0; n < kOwnWeights; ++n) {
    const uint32_t i = n * kThreads + thread();
    const uint32_t unit = i / Block::kRows;
    const uint32_t row = first_row + i % Block::kRows;
    const uint32_t group = row / 32 < groups ? row / 32 : groups - 1;
    weight_at[n] = of.w + (uint64_t{group} * stages * kUnits + unit) * 512 + row % 32 * 16;
  }
#pragma unroll
  for (uint32_t n = 0; n < kOwnColumns; ++n) {
    const uint32_t i = n * kThreads + thread();
    const uint32_t unit_and_part = i / Block::kColumns;
    const uint32_t wanted = first_column + i % Block::kColumns;
    const uint32_t column = wanted < columns ? wanted : columns - 1;
    column_at[n] = all.x.words + (uint64_t{unit_and_part} * all.x.columns + column) * 16;
  }
  const uint64_t column_step = uint64_t{kUnits * kParts} * all.x.columns * 16;
  uint32_t next = 0;
  const auto copy = [&]() {
    const uint32_t stage = next % kHalfStages;
    if (next < stages) {
#pragma unroll
      for (uint32_t n = 0; n < kOwnWeights; ++n) {
        async_copy_16(weights, stage * kWeightWords + (n * kThreads + thread()) * 4,
                      Global<const uint32_t>(weight_at[n]), 0);
        weight_at[n] += kUnits * 512;
      }
#pragma unroll
      for (uint32_t n = 0; n < kOwnColumns; ++n) {
        async_copy_16(activations, stage * kColumnWords + (n * kThreads + thread()) * 4,
                      Global<const uint32_t>(column_at[n]), 0);
        column_at[n] += column_step;
      }
    }
    async_commit();
    ++next;
  };
#pragma unroll 1
  for (uint32_t stage = 0; stage + 1 < kHalfStages; ++stage) copy();

  const uint32_t own_row = warp() % Block::kWarpsDown * kDown * 16;
  const uint32_t own_column = warp() / Block::kWarpsDown * kAcross * 16;
  // The lane's row of four matrices: two of 8 rows below each other, and those of the next unit.
  const uint32_t a_at = (lane() / 16 * Block::kRows + own_row + lane() % 16) * 4;
  // 8 columns in two units, and the next 8.
  const uint32_t b_at =
      (lane() / 8 % 2 * kParts * Block::kColumns + own_column + lane() / 16 * 8 + lane() % 8) * 4;
  float sums[kDown][2 * kAcross][4] = {};
#pragma unroll 1
  for (uint32_t turn = 0; turn < stages; ++turn) {
    async_wait<kHalfStages - 2>();
    sync_block();  // all have copied this stage, and read the one whose place is taken next
    copy();
    const uint32_t stage = turn % kHalfStages;
#pragma unroll
    for (uint32_t half = 0; half < kHalfDepth / 16; ++half) {
      uint32_t a[kDown][4];
#pragma unroll
      for (uint32_t r = 0; r < kDown; ++r) {
        load_matrices(a[r], weights,
                      stage * kWeightWords + a_at + (half * 2 * Block::kRows + r * 16) * 4);
      }
#pragma unroll
      for (uint32_t part = 0; part < kParts; ++part) {
#pragma unroll
        for (uint32_t c = 0; c < kAcross; ++c) {
          uint32_t b[4];
          load_matrices(b, activations,
                        stage * kColumnWords + b_at +
                            ((half * 2 * kParts + part) * Block::kColumns + c * 16) * 4);
#pragma unroll
          for (uint32_t r = 0; r < kDown; ++r) {
            multiply_add(sums[r][2 * c], a[r], {b[0], b[1]});
            multiply_add(sums[r][2 * c + 1], a[r], {b[2], b[3]});
          }
        }
      }
    }
  }

#pragma unroll
  for (uint32_t c = 0; c < 2 * kAcross; ++c) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t column = first_column + own_column + c * 8 + lane() % 4 * 2 + i % 2;
      if (column >= columns) continue;
      const float back = Global<const float>(all.x.back)[column];
#pragma unroll
      for (uint32_t r = 0; r < kDown; ++r) {
        const uint32_t row = first_row + own_row + r * 16 + lane() / 4 + i / 2 * 8;
        if (row >= of.n) continue;
        finish(p, of, of, sums[r][c][i] * back, 0.0f, 0, {0, before + column}, row);
      }
    }
  }
}

// A multiprocessor of the GPUs for computing centres has shared memory for two blocks.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900
constexpr int kHalfTileBlocks = 2;
#else
constexpr int kHalfTileBlocks = 1;
#endif

INFER_KERNEL(INFER_JOIN(half_tile_, INFER_TYPE), HalfTileParams, LargeHalfBlock::kThreads,
             kHalfTileBlocks) {
  multiply<LargeHalfBlock>(p);
}
INFER_KERNEL(INFER_JOIN(INFER_JOIN(half_tile_, INFER_TYPE), _few), HalfTileParams,
             SmallHalfBlock::kThreads, 3) {
  multiply<SmallHalfBlock>(p);
}

}  // namespace infer::cuda::INFER_TYPE
