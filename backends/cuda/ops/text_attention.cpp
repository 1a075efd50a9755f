#include "backends/cuda/ops/text_attention.h"

#include <algorithm>
#include <vector>

#include "backends/cuda/op.h"
#include "engine/core/checked.h"
#include "engine/graph/alibi.h"

namespace infer::cuda {
namespace {

/// Elements of a key or value, for which every GPU has the shared memory and registers.
constexpr int64_t kMostElements = 256;

/// A kernel of ops/text_attention_tile.cu.
struct TileKernel {
  const char* halves;
  const char* name;
  int64_t size;  ///< elements of a key and of a value
  int64_t shared_bytes;
};
#define INFER_TEXT_TILE(size, blocks)                                       \
  {"text_attention_tile_halves_" #size, "text_attention_tile_" #size, size, \
   AttentionTile<size, size>::kBytes},
constexpr TileKernel kTileKernels[] = {INFER_TEXT_TILES(INFER_TEXT_TILE)};
#undef INFER_TEXT_TILE

/// Null: the rows are computed in float32.
const TileKernel* tile_kernel(const Tuning& tuning, const Gpu& gpu, Roles roles, int64_t k_dim,
                              int64_t v_dim) {
  if (!tuning.matrices || roles == Roles::generated) return nullptr;
  for (const TileKernel& kernel : kTileKernels) {
    if (std::max(k_dim, v_dim) > kernel.size) continue;
    return kernel.shared_bytes <= gpu.shared_bytes ? &kernel : nullptr;
  }
  return nullptr;
}

Status supports(const NodeView& node) {
  for (const size_t i : {size_t{0}, size_t{2}}) {
    const int64_t elements = node.input(i)->desc.shape[0];
    if (elements <= kMostElements) continue;
    return error(StatusCode::unsupported, "heads of {} elements; at most {} are supported",
                 elements, kMostElements);
  }
  return {};
}

void record(const NodeCall& call) {
  const auto& p = call.params<op::TextAttention>();
  const Operand& q = call.inputs[0];
  const Operand& k = call.inputs[1];
  const Operand& v = call.inputs[2];
  const Operand& y = call.outputs[0];
  const std::vector<float> slopes = alibi_slopes(q.dim(1), p.alibi, p.alibi_factor);
  const TextAttentionParams params{
      .step = call.step,
      .q = q.address,
      .k = k.address,
      .v = v.address,
      .y = y.address,
      .begins = call.inputs[3].address,
      .ends = call.inputs[4].address,
      .sinks = call.inputs[5].address,
      .slopes = p.alibi > 0 ? call.recorder.keep(std::as_bytes(std::span(slopes))) : 0,
      .halves = call.scratch,
      .q_strides = strides_of(q),
      .k_strides = strides_of(k),
      .v_strides = strides_of(v),
      .y_strides = strides_of(y),
      .k_dim = q.size(0),
      .v_dim = v.size(0),
      .group = q.size(1) / k.size(1),
      .scale = p.scale,
      .softcap = p.softcap,
      .before = p.before,
      .after = p.after,
      .chunk = static_cast<uint32_t>(p.chunk),
      .most_rows = q.size(2),
      .rows = shape_of(y).rows};
  const TileKernel* const tiles =
      tile_kernel(call.tuning, call.gpu, call.roles, q.dim(0), v.dim(0));
  if (tiles != nullptr) {
    call.recorder.launch(tiles->halves, params,
                         {div_ceil<int64_t>(q.dim(2) * tiles->size / 2, kTextHalves), k.dim(1), 2},
                         kTextHalves);
    call.recorder.barrier();
    call.recorder.launch(
        tiles->name, params,
        {k.dim(1), div_ceil<int64_t>(q.dim(2) * int64_t{params.group}, kTileQueries), 1},
        kTileThreads, tiles->shared_bytes);
    return;
  }
  const int64_t elements = v.dim(0);
  call.recorder.launch(elements <= 64    ? "text_attention_64"
                       : elements <= 128 ? "text_attention_128"
                                         : "text_attention_256",
                       params, {div_ceil<int64_t>(q.dim(2), kTextQueries), q.dim(1), 1}, kTextKeys,
                       q.dim(0) * kTextQueries * int64_t{sizeof(float)});
}

/// Keys and values as float16.
int64_t scratch(const NodeView& node, const Tuning& tuning, Roles roles) {
  const TensorDesc& k = node.input(1)->desc;
  const TileKernel* const tiles =
      tile_kernel(tuning, node.gpu, roles, k.shape[0], node.input(2)->desc.shape[0]);
  return tiles == nullptr ? 0 : 2 * 2 * tiles->size * k.shape[1] * k.shape[2];
}

}  // namespace

const CudaOp& text_attention_cuda() {
  static const CudaOp op{OpId::TextAttention, supports, record, scratch};
  return op;
}

}  // namespace infer::cuda
