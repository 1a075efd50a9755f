// Products of weights in the fragment layout (packing.h) with the columns of prompts by warpgroups
// (compute capability 9.0), included after the header of a type by a generated unit that defines
// INFER_TYPE.
//
// A warp decodes 16 rows (weights/decoded.h) while the product of the 16 elements of K before runs.
// Columns are in shared memory as a product takes them: 16 bytes of 8 elements of K of one column
// after the other.
#if defined(INFER_CUDA_EMULATED) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include "backends/cuda/device/warpgroup.h"
#include "backends/cuda/weights/decoded.h"

namespace infer::cuda::INFER_TYPE {

template <typename Block, bool kGlu>
INFER_DEVICE void multiply_by_warpgroups(const DecodedTileParams& all) {
  using Work = DecodedBlockWork<Block, kGlu>;
  Work work(all);
  if (work.first_column >= work.columns) return;
  const uint32_t tiles = work.tiles();
#pragma unroll 1
  for (uint32_t stage = 0; stage < Block::kAhead; ++stage) work.copy();

  const uint64_t columns =
      product_matrix(work.activations, Work::kPartWords * 4, /*column_bytes=*/128);
  float sums[Block::kColumns / 2];
  uint32_t a[2][4];
  uint32_t place = 0;  // of the stage
#pragma unroll 1
  for (uint32_t first = 0; first < tiles; first += Weights::kTiles) {
#pragma unroll
    for (uint32_t t = 0; t < Weights::kTiles; ++t) {
      async_wait<Block::kAhead - 1>();
      show_products();
      sync_block();  // all have copied this stage, and are done with the one before the last
      work.copy(Weights::kTiles < kGroup || (t + Block::kAhead) % kGroup == 0);
      const typename Weights::Raw raw =
          Weights::load(shared_place<kUnits>(work.weights, work.weights_at(first, warp())),
                        first % kGroup / Weights::kTiles);
      const DecodedTile decoded(raw, t);
#pragma unroll
      for (uint32_t step = 0; step < 4; ++step) {
        decoded.decode(step, a[step % 2]);
        warpgroup_fence();
        warpgroup_product(
            sums, a[step % 2],
            product_matrix_at(columns, (place * Work::kParts + step * 2) * Work::kPartWords * 4),
            t + step > 0 || first > 0);
        warpgroup_commit();
        warpgroup_wait<1>();  // the product before: its registers are decoded into next
      }
      place = Work::place_after(place);
    }
  }

  warpgroup_wait<0>();
  async_wait<0>();
  sync_block();  // all are done with the last stage
  constexpr uint32_t kStep = Block::kSumsStep;
  const SharedPtr<float> results = dynamic_shared<float>(0, Block::kColumns * kStep);
#pragma unroll
  for (uint32_t i = 0; i < Block::kColumns / 2; ++i) {
    const uint32_t column = i / 4 * 8 + lane() % 4 * 2 + i % 2;
    results[column * kStep + warp() * 16 + lane() / 4 + i % 4 / 2 * 8] = sums[i];
  }
  sync_block();
  work.finish_all(results);
}

#define INFER_WARPGROUP_TILES(name, Block, blocks)                                   \
  INFER_KERNEL(name, DecodedTileParams, Block::kThreads, blocks) {                   \
    multiply_by_warpgroups<Block, false>(p);                                         \
  }                                                                                  \
  INFER_KERNEL(INFER_JOIN(name, _glu), DecodedTileParams, Block::kThreads, blocks) { \
    multiply_by_warpgroups<Block, true>(p);                                          \
  }
#define INFER_WARPGROUP_NAME(suffix) INFER_JOIN(INFER_JOIN(warpgroup_tile_, INFER_TYPE), suffix)
INFER_WARPGROUP_TILES(INFER_JOIN(warpgroup_tile_, INFER_TYPE), LargeWarpgroupBlock, 1)
INFER_WARPGROUP_TILES(INFER_WARPGROUP_NAME(_128), MediumWarpgroupBlock, 2)
INFER_WARPGROUP_TILES(INFER_WARPGROUP_NAME(_64), SmallWarpgroupBlock, 4)
INFER_WARPGROUP_TILES(INFER_WARPGROUP_NAME(_16), NarrowWarpgroupBlock, 3)

}  // namespace infer::cuda::INFER_TYPE
#endif
