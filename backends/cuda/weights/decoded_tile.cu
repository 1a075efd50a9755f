// Products of weights in the fragment layout (packing.h) with the columns of prompts on tensor
// cores of float16, included after the header of a type by a generated unit that defines
// INFER_TYPE. A warp multiplies what it has decoded (weights/decoded.h) with all columns.
#include "backends/cuda/device/mma.h"
#include "backends/cuda/weights/decoded.h"

namespace infer::cuda::INFER_TYPE {

template <typename Block, bool kGlu>
INFER_DEVICE void multiply_decoded(const DecodedTileParams& all) {
  using Work = DecodedBlockWork<Block, kGlu>;
  constexpr uint32_t kDown = Block::kTilesDown;
  constexpr uint32_t kAcross = Block::kTilesAcross;
  Work work(all);
  if (work.first_column >= work.columns) return;
  const uint32_t tiles = work.tiles();
#pragma unroll 1
  for (uint32_t stage = 0; stage < Block::kAhead; ++stage) work.copy(stage, stage % kGroup == 0);

  const uint32_t first_tile = warp() * kDown;  // of the block's
  // The lane's row of four matrices: both parts of 8 columns, and of the next 8.
  const uint32_t b_at = lane() / 8 % 2 * Work::kPartWords + (lane() / 16 * 8 + lane() % 8) * 4;
  float sums[kDown][kAcross][4] = {};
#pragma unroll 1
  for (uint32_t group = 0; group < tiles; group += kGroup) {
    const uint32_t weights_at = work.weights_at(group, first_tile);
#pragma unroll
    for (uint32_t t = 0; t < kGroup; ++t) {
      if (Weights::kTiles < kGroup && group + t >= tiles) break;
      async_wait<Block::kAhead - 1>();
      sync_block();  // all have copied this stage, and read the one whose place is taken next
      work.copy(group + t + Block::kAhead, (t + Block::kAhead) % kGroup == 0);
      const uint32_t stage_at = (group + t) % Block::kStages * Work::kStageWords;
      typename Weights::Raw raw[kDown];
#pragma unroll
      for (uint32_t r = 0; r < kDown; ++r) {
        raw[r] =
            Weights::load(shared_place<kUnits>(work.weights, weights_at + r * Work::kWeightBytes),
                          t / Weights::kTiles);
      }
#pragma unroll
      for (uint32_t step = 0; step < 4; ++step) {
        uint32_t a[kDown][4];
#pragma unroll
        for (uint32_t r = 0; r < kDown; ++r) {
          DecodedTile(raw[r], t % Weights::kTiles).decode<(Weights::kTiles > 1)>(step, a[r]);
        }
#pragma unroll
        for (uint32_t c = 0; c < kAcross; c += 2) {
          uint32_t b[4];
          load_matrices(b, work.activations,
                        stage_at + b_at + step * 2 * Work::kPartWords + c * 32);
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
  work.finish_all(results);
}

// GPUs that prefer products of bytes (half_product.cpp) have no code for these, nor have those with
// products by warpgroups (weights/warpgroup_tile.cu).
#if !defined(INFER_CUDA_CHOSEN) || !defined(__CUDA_ARCH__) || \
    (__CUDA_ARCH__ != 860 && __CUDA_ARCH__ != 890 && __CUDA_ARCH__ != 1200)
#if !defined(__CUDA_ARCH_FEAT_SM90_ALL)
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
#endif

}  // namespace infer::cuda::INFER_TYPE
