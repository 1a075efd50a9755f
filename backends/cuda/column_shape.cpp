#include "backends/cuda/column_shape.h"

#include <algorithm>

#include "backends/cuda/packing.h"
#include "backends/cuda/product.h"
#include "backends/cuda/weights/stream.h"
#include "engine/core/checked.h"

namespace infer::cuda {
namespace {

/// What a block has beside its dynamic shared memory, at most.
constexpr int64_t kOwnBytes = 11 << 10;
/// Blocks that a multiprocessor holds at once, so that the next kernel's find room as well.
constexpr int64_t kBlocksEach = 2;

/// Tiles of a unit of the layout.
uint32_t unit_tiles(DType type) { return dtype_info(type).block_elements == 256 ? 4 : 1; }

/// Bytes of shared memory for the weights that a warp copies at once.
uint32_t piece_bytes(DType type) {
  const uint32_t of_tile = bytes_of_rows(type) / kStreamTiles;
  const uint32_t tiles = unit_tiles(type);
  return column_piece_bytes(column_piece_tiles(tiles, of_tile * tiles), of_tile);
}

int64_t shared_bytes(DType type, int64_t k, uint32_t stages) {
  const int64_t tiles =
      round_up<int64_t>(div_ceil<int64_t>(k, kTileElements), int64_t{unit_tiles(type)});
  return int64_t{kProductWarps} * stages * piece_bytes(type) +
         tiles * column_bytes(summed_runs(type));
}

bool fits(DType type, int64_t k, uint32_t stages, const Gpu& gpu) {
  return shared_bytes(type, k, stages) + kOwnBytes <= gpu.shared_bytes;
}

}  // namespace

ColumnShape column_shape(const ColumnWork& work, const Gpu& gpu) {
  ColumnShape shape{};
  shape.stages = column_stages(piece_bytes(work.type));
  if (!fits(work.type, work.k, shape.stages, gpu)) {
    shape.stages = fits(work.type, work.k, 2, gpu) ? 2 : 1;
  }
  shape.shared = shared_bytes(work.type, work.k, shape.stages);
  const int64_t held =
      std::clamp<int64_t>(gpu.multiprocessor_shared / (shape.shared + kOwnBytes), 1, kBlocksEach);
  const int64_t most = std::max<int64_t>(gpu.multiprocessors * held, 1);

  // As many warps have a tile together as there are blocks for at once.
  const auto blocks = [&] {
    return std::max<int64_t>(
        div_ceil<int64_t>(work.rows * work.weights << shape.share, int64_t{kProductWarps}), 1);
  };
  shape.share = 3;
  if (work.weights == 2) --shape.share;
  if (work.in_pieces) --shape.share;
  while (shape.share > 0 && blocks() * work.others > most) --shape.share;
  shape.blocks = std::clamp<int64_t>(most / work.others, 1, blocks());
  return shape;
}

bool column_fits(DType type, int64_t k, const Gpu& gpu) { return fits(type, k, 1, gpu); }

}  // namespace infer::cuda
