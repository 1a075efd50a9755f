#include "backends/cuda/half_product.h"

#include <algorithm>

#include "backends/cuda/product.h"
#include "backends/cuda/weights/half_tile.h"
#include "engine/core/checked.h"

namespace infer::cuda {
namespace {

/// Columns in the work space.
struct HalvesLayout {
  int64_t columns, units;

  explicit HalvesLayout(const TensorDesc& x)
      : columns(x.shape[2]), units(div_ceil<int64_t>(x.shape[0], kHalfDepth) * (kHalfDepth / 8)) {}
  int64_t back_at() const { return columns * units * kHalfParts * 16; }
  int64_t bytes() const { return back_at() + columns * int64_t{sizeof(float)}; }
};

/// How blocks share rows and columns.
struct BlockShape {
  const char* suffix;
  int64_t rows, columns;
  uint32_t threads;
  uint32_t bytes;  ///< of shared memory
};
template <typename Block>
BlockShape block_shape(const char* suffix) {
  return {suffix, Block::kRows, Block::kColumns, Block::kThreads, half_tile_bytes<Block>()};
}

// What GPUs of compute capability 8.6 and 8.9 have, and what a block takes beside what it asks for.
constexpr uint32_t kSharedEach = 100 << 10;
constexpr uint32_t kSharedBeside = 1 << 10;
static_assert(half_tile_bytes<LargeHalfBlock>() + kSharedBeside <= kSharedEach);
static_assert(3 * (half_tile_bytes<SmallHalfBlock>() + kSharedBeside) <= kSharedEach);

int64_t row_blocks(const ProductCall& in, int64_t rows) {
  int64_t blocks = 0;
  for (const gpu::ProductWeight& weight : in.weights) {
    blocks += div_ceil<int64_t>(weight.w.dim(1), rows);
  }
  return blocks;
}

/// Large blocks if there are enough of them.
BlockShape choose_block(const NodeCall& call, const ProductCall& in) {
  const auto large = block_shape<LargeHalfBlock>("");
  const int64_t blocks = row_blocks(in, large.rows) * div_ceil(in.x.dim(2), large.columns);
  const bool fits = int64_t{large.bytes} <= call.gpu.shared_bytes;
  if (fits && blocks >= call.gpu.multiprocessors) return large;
  return block_shape<SmallHalfBlock>("_few");
}

}  // namespace

bool uses_halves(const NodeView& node, const Tuning& tuning, Roles roles) {
  if (!tuning.matrices || roles == Roles::generated || node.node.op() != OpId::Matmul) return false;
  const DType type = node.input(1)->desc.type;
  // Bfloat16 has products from compute capability 8.0 on.
  if (type != DType::f16 && (type != DType::bf16 || node.gpu.capability < 80)) return false;
  return node.graph.value(node.node.outputs[0]).rows == Rows::tokens &&
         !gpu::chooses_experts(node.graph, node.node);
}

int64_t halves_scratch(const NodeView& node) { return HalvesLayout(node.input(0)->desc).bytes(); }

void record_halves(const NodeCall& call, const ProductCall& in) {
  const DType type = in.weights[0].w.value->desc.type;
  const HalvesLayout layout(in.x.value->desc);
  const ColumnHalves to{.words = call.scratch,
                        .back = call.scratch + static_cast<uint64_t>(layout.back_at()),
                        .columns = static_cast<uint32_t>(layout.columns),
                        .unused = 0};
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
                       {layout.columns, 1, 1}, kToHalvesThreads);
  call.recorder.barrier();
  const BlockShape block = choose_block(call, in);
  const std::string kernel = "half_tile_" + std::string(dtype_info(type).ident) + block.suffix;
  for (size_t first = 0; first < in.weights.size(); first += kProductWeights) {
    const size_t count = std::min<size_t>(in.weights.size() - first, kProductWeights);
    ProductParams params{};
    params.step = call.step;
    params.k = in.x.size(0);
    params.matrices = 1;
    params.weight_count = static_cast<uint32_t>(count);
    params.after = what_follows(in);
    for (size_t i = 0; i < count; ++i) {
      params.weights[i] = matrix_params(in, in.weights[first + i]);
      params.weights[i].first_tile = params.tiles;
      params.tiles +=
          static_cast<uint32_t>(div_ceil<int64_t>(in.weights[first + i].w.dim(1), block.rows));
    }
    call.recorder.launch(kernel, HalfTileParams{params, to},
                         {params.tiles, div_ceil(layout.columns, block.columns), 1},
                         static_cast<int>(block.threads), block.bytes);
  }
}

}  // namespace infer::cuda
