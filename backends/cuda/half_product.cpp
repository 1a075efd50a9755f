#include "backends/cuda/half_product.h"

#include <algorithm>
#include <limits>

#include "backends/cuda/packing.h"
#include "backends/cuda/product.h"
#include "backends/cuda/weights/decoded_tile.h"
#include "backends/cuda/weights/stream.h"
#include "engine/core/checked.h"

namespace infer::cuda {
namespace {

using gpu::ProductWeight;

/// Whether weights are decoded to float16: those whose scales are of float16, so that nothing that
/// matters is below its range.
bool is_decoded(DType type) {
  switch (type) {
    case DType::q4_0:
    case DType::q4_1:
    case DType::q5_0:
    case DType::q5_1:
    case DType::q8_0:
    case DType::q2_k:
    case DType::q3_k:
    case DType::q4_k:
    case DType::q5_k:
    case DType::q6_k:
    case DType::iq4_nl:
    case DType::iq4_xs: return true;
    default: return false;
  }
}

/// GPUs for computing centres. Others add products of float16 in float32 at half the rate or less,
/// so that products of bytes are the faster ones.
bool prefers_halves(const Gpu& gpu) {
  switch (gpu.capability) {
    case 80:
    case 90:
    case 100:
    case 103: return true;
    default: return false;
  }
}

/// Columns in the work space.
struct HalvesLayout {
  int64_t columns;
  int64_t units;         ///< of 8 elements of K, or of 16 where weights are decoded
  int64_t column_bytes;  ///< of a unit
  int64_t behind = 0;    ///< bytes behind the last column that blocks may read

  HalvesLayout(const TensorDesc& x, DType type) : columns(x.shape[2]) {
    if (is_decoded(type)) {
      units = div_ceil<int64_t>(x.shape[0], kTileElements) * (kTileElements / 16);
      column_bytes = 32;
      behind = LargeWarpgroupBlock::kColumns * 16;
    } else {
      units = div_ceil<int64_t>(x.shape[0], kHalfDepth) * (kHalfDepth / 8);
      column_bytes = 16 * int64_t{kHalfParts};
    }
  }
  int64_t back_at() const { return columns * units * column_bytes + behind; }
  int64_t bytes() const { return back_at() + columns * int64_t{sizeof(float)}; }
};

/// How blocks share rows and columns.
struct BlockShape {
  const char* kernels;  ///< what their names begin with
  const char* suffix;
  int64_t rows, columns;
  uint32_t threads;
  uint32_t bytes;  ///< of shared memory
};
template <typename Block>
BlockShape half_block(const char* suffix) {
  return {"half_tile_",    suffix,          Block::kRows,
          Block::kColumns, Block::kThreads, half_tile_bytes<Block>()};
}
template <typename Block>
BlockShape decoded_block(DType type, const char* kernels, const char* suffix) {
  const uint32_t group = decoded_group(dtype_info(type).block_elements == 256 ? 4 : 1);
  return {kernels,
          suffix,
          Block::kRows,
          Block::kColumns,
          Block::kThreads,
          decoded_tile_bytes<Block>(bytes_of_rows(type) / kStreamTiles * group, group)};
}
template <typename Block>
BlockShape tile_block(DType type, const char* suffix) {
  return decoded_block<Block>(type, "decoded_tile_", suffix);
}
template <typename Block>
BlockShape warpgroup_block(DType type, const char* suffix) {
  return decoded_block<Block>(type, "warpgroup_tile_", suffix);
}

// What GPUs of compute capability 8.6 and 8.9 have, and what a block takes beside what it asks for.
constexpr uint32_t kSharedEach = 100 << 10;
constexpr uint32_t kSharedBeside = 1 << 10;
static_assert(half_tile_bytes<LargeHalfBlock>() + kSharedBeside <= kSharedEach);
static_assert(3 * (half_tile_bytes<SmallHalfBlock>() + kSharedBeside) <= kSharedEach);

/// Groups of rows of a weight: of a Glu, both weights have as many.
int64_t row_blocks(const ProductCall& in, const ProductWeight& weight, const BlockShape& block) {
  return div_ceil<int64_t>(weight.w.dim(1), in.glu != nullptr ? block.rows / 2 : block.rows);
}

/// Blocks of a product.
int64_t blocks_of(const ProductCall& in, const BlockShape& block) {
  int64_t blocks = 0;
  for (const ProductWeight& weight : in.weights) {
    blocks += row_blocks(in, weight, block);
    if (in.glu != nullptr) break;
  }
  return blocks * div_ceil(in.x.dim(2), block.columns);
}

/// Cycles of a multiprocessor for 64 elements of K of a block: what takes longest of multiplying
/// (2048 a cycle), bringing columns and weights from the second-level cache (32 bytes a cycle), and
/// decoding (about 52 instructions of a warp for 16 elements, by four schedulers).
int64_t cycles_of(const BlockShape& block, DType type) {
  const int64_t multiplied = block.rows * block.columns * 64 / 2048;
  const int64_t weights = block.rows / 16 * int64_t{bytes_of_rows(type) / kStreamTiles};
  const int64_t brought = (block.columns * 128 + weights) / 32;
  const int64_t decoded = block.rows / 64 * 4 * 52;
  return std::max({multiplied, brought, decoded});
}

/// The blocks with which the multiprocessor that has most of them is done first.
BlockShape choose_warpgroup_block(const NodeCall& call, const ProductCall& in, DType type) {
  const BlockShape shapes[] = {warpgroup_block<NarrowWarpgroupBlock>(type, "_16"),
                               warpgroup_block<SmallWarpgroupBlock>(type, "_64"),
                               warpgroup_block<LargeWarpgroupBlock>(type, "")};
  const auto cycles = [&](const BlockShape& block) {
    if (int64_t{block.bytes} + kWarpgroupBarriers > call.gpu.shared_bytes)
      return std::numeric_limits<int64_t>::max();
    return div_ceil(blocks_of(in, block), int64_t{call.gpu.multiprocessors}) *
           cycles_of(block, type);
  };
  return *std::ranges::min_element(shapes, {}, cycles);
}

/// Large blocks if there are enough of them.
BlockShape choose_block(const NodeCall& call, const ProductCall& in, DType type) {
  const bool decoded = is_decoded(type);
  if (decoded && call.tuning.warpgroups) return choose_warpgroup_block(call, in, type);
  const BlockShape large =
      decoded ? tile_block<LargeDecodedBlock>(type, "") : half_block<LargeHalfBlock>("");
  const bool fits = int64_t{large.bytes} <= call.gpu.shared_bytes;
  if (fits && blocks_of(in, large) >= call.gpu.multiprocessors) return large;
  if (!decoded) return half_block<SmallHalfBlock>("_few");
  return in.x.dim(2) <= NarrowDecodedBlock::kColumns ? tile_block<NarrowDecodedBlock>(type, "_16")
                                                     : tile_block<SmallDecodedBlock>(type, "_64");
}

/// Puts the columns into the work space, after a norm if the call has one.
ColumnHalves record_columns(const NodeCall& call, const ProductCall& in, DType type) {
  const HalvesLayout layout(in.x.value->desc, type);
  const ColumnHalves to{.words = call.scratch,
                        .back = call.scratch + static_cast<uint64_t>(layout.back_at()),
                        .columns = static_cast<uint32_t>(layout.columns),
                        .unused = 0};
  const Grid grid{layout.columns, 1, 1};
  if (is_decoded(type)) {
    const bool is_long = in.x.size(0) > kToFragmentsThreads * kToFragmentsHeld;
    call.recorder.launch(is_long ? "to_fragments_long" : "to_fragments",
                         ToFragmentsParams{.step = call.step,
                                           .x = in.x.address,
                                           .norm = norm_address(in),
                                           .to = to,
                                           .stride = in.x.stride(2),
                                           .k = in.x.size(0),
                                           .steps = static_cast<uint32_t>(layout.units),
                                           .normed = in.norm != nullptr ? 1u : 0u,
                                           .aligned = aligned(in.x) ? 1u : 0u,
                                           .eps = in.norm != nullptr ? in.norm->eps : 0.0f},
                         grid, is_long ? kToFragmentsLongThreads : kToFragmentsThreads);
  } else {
    call.recorder.launch("to_halves",
                         ToHalvesParams{.step = call.step,
                                        .x = in.x.address,
                                        .to = to,
                                        .stride = in.x.stride(2),
                                        .k = in.x.size(0),
                                        .units = static_cast<uint32_t>(layout.units),
                                        .brains = type == DType::bf16 ? 1u : 0u,
                                        .aligned = aligned(in.x) ? 1u : 0u,
                                        .unused = 0},
                         grid, kToHalvesThreads);
  }
  call.recorder.barrier();
  return to;
}

}  // namespace

bool uses_halves(const NodeView& node, const Tuning& tuning, Roles roles) {
  if (!tuning.matrices || roles == Roles::generated || node.node.op() != OpId::Matmul) return false;
  const DType type = node.input(1)->desc.type;
  // Bfloat16 has products from compute capability 8.0 on.
  const bool own = type == DType::f16 || (type == DType::bf16 && node.gpu.capability >= 80);
  const bool decoded = is_decoded(type) && tuning.integer && prefers_halves(node.gpu);
  return (own || decoded) && node.graph.value(node.node.outputs[0]).rows == Rows::tokens &&
         !gpu::chooses_experts(node.graph, node.node);
}

int64_t halves_scratch(const NodeView& node) {
  return HalvesLayout(node.input(0)->desc, node.input(1)->desc.type).bytes();
}

void record_halves(const NodeCall& call, const ProductCall& in) {
  const DType type = in.weights[0].w.value->desc.type;
  const ColumnHalves columns = record_columns(call, in, type);
  const BlockShape block = choose_block(call, in, type);
  std::string kernel = block.kernels + std::string(dtype_info(type).ident) + block.suffix;
  if (in.glu != nullptr) kernel += "_glu";
  for (size_t first = 0; first < in.weights.size(); first += kProductWeights) {
    const size_t count = std::min<size_t>(in.weights.size() - first, kProductWeights);
    ProductParams params{};
    params.step = call.step;
    params.k = in.x.size(0);
    params.matrices = 1;
    params.weight_count = in.glu != nullptr ? 1 : static_cast<uint32_t>(count);
    params.after = what_follows(in);
    params.alpha = in.glu != nullptr ? in.glu->alpha : 0.0f;
    params.limit = in.glu != nullptr ? in.glu->limit : 0.0f;
    for (size_t i = 0; i < count; ++i) {
      params.weights[i] = matrix_params(in, in.weights[first + i]);
      params.weights[i].first_tile = params.tiles;
      if (in.glu != nullptr && i == 1) break;  // it has the tiles of the first
      params.tiles += static_cast<uint32_t>(row_blocks(in, in.weights[first + i], block));
    }
    call.recorder.launch(kernel, HalfTileParams{params, columns},
                         {params.tiles, div_ceil(in.x.dim(2), block.columns), 1},
                         static_cast<int>(block.threads), block.bytes);
  }
}

}  // namespace infer::cuda
