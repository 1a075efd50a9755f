// Products of weights in the fragment layout (packing.h) with the columns of prompts by warpgroups
// (compute capability 9.0), included after the header of a type by a generated unit that defines
// INFER_TYPE.
//
// A warp decodes 16 rows (weights/decoded.h) while the product of the 16 elements of K before runs.
// Columns are in shared memory as a product takes them: 16 bytes of 8 elements of K of one column
// after the other. In memory so many neighbours lie together, and a copy brings them as a whole:
// behind the last column it brings what is there, for sums that nobody reads.
#if defined(INFER_CUDA_EMULATED) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include "backends/cuda/device/bulk_copy.h"
#include "backends/cuda/device/warpgroup.h"
#include "backends/cuda/weights/decoded.h"

namespace infer::cuda::INFER_TYPE {

/// What a warp does beside its product: it has a share of the copies of a stage, which is 64
/// elements of K, and the weights of its rows.
template <typename Block, bool kGlu>
struct StageCopies {
  using Work = DecodedBlockWork<Block, kGlu>;
  static_assert(Work::kParts % Block::kWarps == 0);

  const Work& work;
  SharedPtr<uint64_t> full;  ///< [stage]: whether it has come
  uint64_t columns_from;     ///< address of the warp's first part of the next stage
  uint32_t next = 0;         ///< stage to be copied, and its place
  uint32_t place = 0;

  /// `begins`: a group of weights may begin with the stage.
  INFER_DEVICE void copy(bool begins = true) {
    if (next < work.tiles() && is_elected()) {
      const bool group_begins = begins && next % kGroup == 0;
      const uint32_t unit = next / Weights::kTiles;
      const uint32_t left = work.units - unit;
      const uint32_t units = kUnits == 1 || left >= kUnits ? kUnits : left;
      const SharedPtr<uint64_t> barrier = full + place;
      if (warp() == 0) {
        const uint32_t of_weights = group_begins ? Block::kTiles * units * unit_bytes() : 0;
        bulk_expect(barrier, Work::kStageWords * 4 + of_weights);
      }
#pragma unroll
      for (uint32_t n = 0; n < Work::kParts / Block::kWarps; ++n) {
        const uint32_t part = warp() + n * Block::kWarps;
        const uint64_t from = columns_from + uint64_t{n * Block::kWarps} * work.part_bytes();
        bulk_copy(work.activations, place * Work::kStageWords + part * Work::kPartWords,
                  Global<const uint32_t>(from), 0, Work::kPartWords * 4, barrier);
      }
      if (group_begins) copy_rows(unit, units, barrier);
    }
    ++next;
    place = Work::place_after(place);
    columns_from += uint64_t{Work::kParts} * work.part_bytes();
  }

  /// The weights of the warp's 16 rows.
  INFER_DEVICE void copy_rows(uint32_t unit, uint32_t units, const SharedPtr<uint64_t>& barrier) {
    static_assert(Block::kTiles == Block::kWarps);
    const MatrixParams& of = work.rows.weight(warp());
    const uint64_t first = uint64_t{work.rows.held_row_tile(warp())} * work.units + unit;
    uint32_t to = work.weights_at(next, warp()) / 4;
#pragma unroll
    for (uint32_t i = 0; i < Weights::kPlanes; ++i) {
      bulk_copy(work.weights, to, Global<const uint32_t>(plane_at(of, i, first)), 0,
                units * Weights::unit_bytes(i), barrier);
      to += kUnits * Weights::unit_bytes(i) / 4;
    }
  }
};

template <typename Block, bool kGlu>
INFER_DEVICE void multiply_by_warpgroups(const DecodedTileParams& all) {
  using Work = DecodedBlockWork<Block, kGlu>;
  const Work work(all);
  if (work.first_column >= work.columns) return;
  const uint32_t tiles = work.tiles();
  INFER_SHARED(uint64_t, full, Block::kStages);
  if (thread() < Block::kStages) bulk_barrier(SharedPtr<uint64_t>(full) + thread());
  sync_block();
  StageCopies<Block, kGlu> copies{
      work, SharedPtr<uint64_t>(full),
      all.x.words + uint64_t{warp()} * work.part_bytes() + uint64_t{work.first_column} * 16};
#pragma unroll 1
  for (uint32_t stage = 0; stage < Block::kAhead; ++stage) copies.copy();

  const uint64_t columns =
      product_matrix(work.activations, Work::kPartWords * 4, /*column_bytes=*/128);
  float sums[Block::kColumns / 2];  // the first product sets them: no zeros are written
  uint32_t a[2][4];
  uint32_t place = 0;  // of the stage
  uint32_t parity = 0;
#pragma unroll 1
  for (uint32_t first = 0; first < tiles; first += Weights::kTiles) {
#pragma unroll
    for (uint32_t t = 0; t < Weights::kTiles; ++t) {
      sync_block();  // all are done with the stage before the last, whose place is taken next
      copies.copy(Weights::kTiles < kGroup || (t + Block::kAhead) % kGroup == 0);
      bulk_wait(SharedPtr<uint64_t>(full) + place, parity);
      const typename Weights::Raw raw =
          Weights::load(shared_place<kUnits>(work.weights, work.weights_at(first, warp())),
                        first % kGroup / Weights::kTiles);
      const DecodedTile decoded(raw, t);
#pragma unroll
      for (uint32_t step = 0; step < 4; ++step) {
        decoded.decode<true>(step, a[step % 2]);
        warpgroup_fence();
        warpgroup_product(
            sums, a[step % 2],
            product_matrix_at(columns, (place * Work::kParts + step * 2) * Block::kColumns),
            t + step > 0 || first > 0);
        warpgroup_commit();
        warpgroup_wait<1>();  // the product before: its registers are decoded into next
      }
      place = Work::place_after(place);
      if (place == 0) parity ^= 1;
    }
  }

  warpgroup_wait<0>();
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
INFER_WARPGROUP_TILES(INFER_JOIN(warpgroup_tile_, INFER_TYPE), LargeWarpgroupBlock, 2)
INFER_WARPGROUP_TILES(INFER_WARPGROUP_NAME(_64), SmallWarpgroupBlock, 4)
INFER_WARPGROUP_TILES(INFER_WARPGROUP_NAME(_16), NarrowWarpgroupBlock, 3)

}  // namespace infer::cuda::INFER_TYPE
#endif
