// Products of weights in the plain layout, included after the header of a type by a generated unit
// that defines INFER_TYPE. A lane computes a row; the warps of a block have a stretch of K each. A
// stretch is summed element by element, then the stretches are added in their order: one order for
// a row, however many columns there are.
#include "backends/cuda/weights/columns.h"

namespace infer::cuda::INFER_TYPE {

INFER_KERNEL(INFER_JOIN(rows_, INFER_TYPE), ProductParams, kProductThreads, 1) {
  INFER_SHARED(float, parts, 2 * kProductWarps * 32 * kFloatColumns);
  const Columns columns = columns_of(p);
  if (columns.count == 0) return;
  uint32_t starts[kFloatColumns];
#pragma unroll
  for (uint32_t c = 0; c < kFloatColumns; ++c) {
    starts[c] = column_start(p, columns, c < columns.count ? c : columns.count - 1);
  }
  const uint32_t pieces = (p.k + kPiece - 1) / kPiece;
  const uint32_t stretch = (pieces + kProductWarps - 1) / kProductWarps;
  const uint32_t begin = warp() * stretch;
  const uint32_t end = begin + stretch < pieces ? begin + stretch : pieces;
  const uint64_t tables = step_tables(p.step);
  uint32_t which = 0;
  uint32_t turn = 0;
  for (uint32_t tile = block_x(); tile < p.tiles; tile += grid_x()) {
    while (which + 1 < p.weight_count && tile >= p.weights[which + 1].first_tile) ++which;
    const MatrixParams& of = p.weights[which];
    const uint32_t own = (tile - of.first_tile) * 32 + lane();
    const Row row =
        row_of(of.w, of.planes, tables, p.k, of.n, columns.matrix, own < of.n ? own : of.n - 1);
    float sums[kFloatColumns] = {};
    for (uint32_t i = begin; i < end; ++i) {
      float v[32];
      decode(row, i, v);
      const Runs of_piece = runs(i);
#pragma unroll
      for (uint32_t c = 0; c < kFloatColumns; ++c) {
        if (c >= columns.count) break;
        float sum = sums[c];
#pragma unroll
        for (uint32_t four = 0; four < 8; ++four) {
          const uint32_t at =
              four < 4 ? of_piece.first + 4 * four : of_piece.second + 4 * four - 16;
          const float4 x = four_of_column(p, starts[c], at, 1.0f);
          sum = fused(v[4 * four], x.x, sum);
          sum = fused(v[4 * four + 1], x.y, sum);
          sum = fused(v[4 * four + 2], x.z, sum);
          sum = fused(v[4 * four + 3], x.w, sum);
        }
        sums[c] = sum;
      }
    }
    constexpr uint32_t kOfWarp = 32 * kFloatColumns;
    const SharedPtr<float> all = parts + turn * kProductWarps * kOfWarp;
#pragma unroll
    for (uint32_t c = 0; c < kFloatColumns; ++c) all[warp() * kOfWarp + c * 32 + lane()] = sums[c];
    sync_block();
    const uint32_t c = warp();
    if (c < columns.count && own < of.n) {
      float sum = all[c * 32 + lane()];
      for (uint32_t part = 1; part < kProductWarps; ++part) {
        sum = sum + all[part * kOfWarp + c * 32 + lane()];
      }
      finish(p, of, of, sum, 0.0f, columns.matrix, column_of(p, columns, c), own);
    }
    turn ^= 1;
  }
}

}  // namespace infer::cuda::INFER_TYPE
