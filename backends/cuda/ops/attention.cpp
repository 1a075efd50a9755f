#include "backends/cuda/ops/attention.h"

#include <algorithm>
#include <optional>
#include <span>

#include "backends/cuda/cache.h"
#include "backends/cuda/pooled.h"
#include "backends/cuda/rounded_values.h"
#include "backends/gpu/split_rows.h"
#include "backends/gpu/step.h"
#include "engine/core/checked.h"
#include "engine/graph/alibi.h"

namespace infer::cuda {
namespace {

/// Elements of a value for which there are kernels.
constexpr int64_t kMostValue = 1024;
constexpr int64_t kMostKey = 4096;
/// Bytes of dynamic shared memory, at most, beside the kernels' own arrays.
constexpr int64_t kMostShared = 40 << 10;

int64_t fours_of(int64_t v_dim) {
  const int64_t fours = div_ceil<int64_t>(v_dim, 128);
  return fours <= 2 ? fours : fours <= 4 ? 4 : 8;
}

/// For queries, for the warps' mixes of values, and for the merged one.
int64_t shared_bytes(const KvLayerShape& shape, int64_t heads) {
  return (shape.k_dim + (kAttentionWarps + 1) * shape.v_dim) * heads * int64_t{sizeof(float)};
}

/// Heads of a row that a block computes.
int64_t heads_together(const KvLayerShape& shape, int64_t group) {
  const int64_t most = std::min<int64_t>(16 / fours_of(shape.v_dim) / 2, 4);
  int64_t heads = 1;
  while (heads < std::min(group, most) && shared_bytes(shape, 2 * heads) <= kMostShared) heads *= 2;
  return heads;
}

/// A kernel of ops/attention_tile.cu.
struct TileKernel {
  const char* name;
  int64_t k_dim, v_dim;
  int64_t blocks;  ///< that a multiprocessor is to hold
  int64_t shared_bytes;
};
#define INFER_ATTENTION_TILE(key, value, blocks) \
  {"attention_tile_" #key "_" #value, key, value, blocks, AttentionTile<key, value>::kBytes},
constexpr TileKernel kTileKernels[] = {INFER_ATTENTION_TILES(INFER_ATTENTION_TILE)};
#undef INFER_ATTENTION_TILE
#define INFER_BIASED_TILE(key, value, blocks) \
  {"attention_tile_biased_" #key "_" #value, key, value, blocks, AttentionTile<key, value>::kBytes},
constexpr TileKernel kBiasedKernels[] = {INFER_BIASED_TILES(INFER_BIASED_TILE)};
#undef INFER_BIASED_TILE
// GPUs of compute capability 8.6 and 8.9 have 100 KiB, and a block takes 1 KiB more than it asks
// for.
static_assert(std::ranges::all_of(kTileKernels, [](const TileKernel& kernel) {
  const int64_t blocks = kernel.k_dim > 128 ? 1 : kernel.blocks;
  return blocks * (kernel.shared_bytes + 1024) <= 100 << 10;
}));

/// Whether tiles read rows of this type: of 16 bits, or of whole blocks one after another.
bool tile_reads(DType type, int64_t dim, int64_t row_bytes) {
  if (type == DType::f32) return false;
  return !is_quantised(type) || row_bytes * 32 == dim * int64_t{dtype_info(type).block_bytes};
}

const KvLayerShape& shape_of_layer(const Graph& graph, const Node& node) {
  const auto& params = std::get<op::Attention>(node.params);
  return graph.kv().layers[static_cast<size_t>(params.kv_layer)];
}

Status supports(const NodeView& node) {
  INFER_CHECK(cache_supports(node));
  const KvLayerShape& shape = shape_of_layer(node.graph, node.node);
  if (shape.v_dim <= kMostValue && shape.k_dim <= kMostKey) return {};
  return error(StatusCode::unsupported,
               "keys of {} and values of {} elements; at most {} and {} are supported", shape.k_dim,
               shape.v_dim, kMostKey, kMostValue);
}

/// The kernel for tokens of prompts, which are a numeric class of their own then. Null: they are
/// computed as generated tokens are. A cache of float32 keeps its precision.
const TileKernel* tile_kernel(const NodeCall& call) {
  if (!call.tuning.matrices || call.roles == Roles::generated) return nullptr;
  if (call.inputs[5].given()) return nullptr;  // rows share no keys
  const KvGeometry& kv = call.graph.kv();
  const KvLayerShape& shape = shape_of_layer(call.graph, call.node);
  const KvLayerLayout& at =
      call.kv_layout.layers[static_cast<size_t>(call.params<op::Attention>().kv_layer)];
  if (!tile_reads(kv.k_type, shape.k_dim, at.k_row)) return nullptr;
  if (!tile_reads(kv.v_type, shape.v_dim, at.v_row)) return nullptr;
  const bool biased = call.params<op::Attention>().alibi > 0;
  for (const TileKernel& kernel :
       biased ? std::span<const TileKernel>(kBiasedKernels) : std::span(kTileKernels)) {
    if (kernel.k_dim != shape.k_dim || kernel.v_dim != shape.v_dim) continue;
    return kernel.shared_bytes <= call.gpu.shared_bytes ? &kernel : nullptr;
  }
  return nullptr;
}

AttentionParams attention_params(const NodeCall& call) {
  const auto& p = call.params<op::Attention>();
  const KvGeometry& kv = call.graph.kv();
  const KvLayerShape& shape = shape_of_layer(call.graph, call.node);
  const KvLayerLayout& at = call.kv_layout.layers[static_cast<size_t>(p.kv_layer)];
  const Operand& q = call.inputs[0];
  const Operand& sinks = call.inputs[3];
  const Operand& y = call.outputs[0];
  AttentionParams params{};
  params.step = call.step;
  params.q = q.address;
  params.slots = call.inputs[1].address;
  params.sequences = call.inputs[2].address;
  params.last_seen = call.inputs[4].given() ? call.inputs[4].address : params.slots;
  params.y = y.address;
  params.sinks = sinks.given() ? sinks.address : 0;
  params.chunks = call.scratch;
  params.q_strides = strides_of(q);
  params.y_strides = strides_of(y);
  params.heads = q.size(1);
  params.group = static_cast<uint32_t>(q.dim(1) / shape.heads);
  params.kind = static_cast<uint32_t>(at.kind);
  params.k_offset = static_cast<uint32_t>(at.k_offset);
  params.v_offset = static_cast<uint32_t>(at.v_offset);
  params.k_row = static_cast<uint32_t>(at.k_row);
  params.v_row = static_cast<uint32_t>(at.v_row);
  params.k_type = *cache_type(kv.k_type);
  params.v_type = *cache_type(kv.v_type);
  params.k_dim = static_cast<uint32_t>(shape.k_dim);
  params.v_dim = static_cast<uint32_t>(shape.v_dim);
  params.across = at.k_element > 0 ? 1 : 0;
  params.keys_whole = whole_rows(kv.k_type, shape.k_dim, at.k_row) ? 1 : 0;
  params.values_whole = whole_rows(kv.v_type, shape.v_dim, at.v_row) ? 1 : 0;
  params.scale = p.scale;
  params.softcap = p.softcap;
  params.window = static_cast<uint32_t>(p.window);
  params.chunked = p.chunked ? 1 : 0;
  params.rows = gpu::kTokenRows;
  if (p.alibi > 0) {
    const std::vector<float> slopes = alibi_slopes(q.dim(1), p.alibi, p.alibi_factor);
    params.slopes = call.recorder.keep(std::as_bytes(std::span(slopes)));
  }
  if (const Operand& chosen = call.inputs[5]; chosen.given()) {
    params.chosen = chosen.address;
    params.chosen_stride = chosen.stride(2);
    params.chosen_list_stride = chosen.size(1) > 1 ? chosen.stride(1) : 0;
    params.chosen_count = chosen.size(0);
    params.chosen_block = static_cast<uint32_t>(p.chosen_block);
    params.chosen_shift = p.chosen_by_head ? 0 : 1;
  }
  return params;
}

/// Rows [first, last) one by one, up to the count `which` of the step. `split`: along the keys.
void record_rows(const NodeCall& call, AttentionParams params, gpu::StepRows which, int64_t first,
                 int64_t last, bool split) {
  const KvLayerShape& shape = shape_of_layer(call.graph, call.node);
  const Operand& y = call.outputs[0];
  const int64_t rows = last - first;
  const int64_t heads = heads_together(shape, params.group);
  params.group_blocks = static_cast<uint32_t>(div_ceil<int64_t>(params.group, heads));
  params.split = split ? 1 : 0;
  if (split) {
    params.counters = call.counters;
    params.result_runs = call.rounded.runs(y);
    params.results = call.rounded.bytes(y);
  }
  params.rows = which;
  params.first_row = static_cast<uint32_t>(first);
  const std::string kernel = std::string(params.chosen != 0 ? "attention_chosen_" : "attention_") +
                             std::to_string(heads) + "_" + std::to_string(fours_of(shape.v_dim));
  call.recorder.launch(
      kernel, params,
      {shape.heads * int64_t{params.group_blocks}, rows, split ? int64_t{kChunks} : 1},
      kAttentionThreads, shared_bytes(shape, heads));
}

/// Whether rows have a list of single slots, and all heads the same keys: the slots are blocks
/// then. Such rows share no keys with others, but their heads do.
bool sees_blocks(const NodeCall& call) {
  const auto& p = call.params<op::Attention>();
  const Operand& chosen = call.inputs[5];
  const KvLayerShape& shape = shape_of_layer(call.graph, call.node);
  return chosen.given() && chosen.dim(1) == 1 && p.chosen_block == 1 && !p.chosen_by_head &&
         p.softcap == 0 && shape.heads == 1 && pooled_takes(shape);
}

void record(const NodeCall& call) {
  if (sees_blocks(call)) {
    const auto& p = call.params<op::Attention>();
    record_pooled(call, {.slots_layer = p.kv_layer,
                         .blocks_layer = p.kv_layer,
                         .scale = p.scale,
                         .sinks = call.inputs[3],
                         .chosen = call.inputs[5]});
    return;
  }
  const AttentionParams params = attention_params(call);
  const TileKernel* const tiles = tile_kernel(call);
  const int64_t rows = call.outputs[0].dim(2);
  const int64_t few =
      gpu::split_rows(call.graph.value(call.node.outputs[0]).desc, kChunks, call.tuning.split_rows);
  if (tiles == nullptr) {
    record_rows(call, params, gpu::kTokenRows, 0, rows, rows == few);
    return;
  }
  const int64_t heads = shape_of_layer(call.graph, call.node).heads;
  call.recorder.launch(
      tiles->name, params,
      {heads, div_ceil<int64_t>(call.outputs[0].dim(2) * params.group, kTileQueries), 1},
      static_cast<int>(kTileThreads), tiles->shared_bytes);
  if (call.roles != Roles::both) return;
  // Generated rows come first. A few of them leave most of the GPU idle, if not split.
  if (few > 0) record_rows(call, params, gpu::kGeneratedRows, 0, few, true);
  if (few < rows) record_rows(call, params, gpu::kGeneratedRows, few, rows, false);
}

/// A single generated row also turns its query and key, and stores its token. Types with blocks
/// have kernels of their own for that.
bool takes(const NodeView& attention, OpId with, const Tuning& tuning, Roles roles) {
  if (with != OpId::KvStore || roles != Roles::generated || tuning.split_rows < 1) return false;
  if (attention.graph.value(attention.node.outputs[0]).desc.shape[2] != 1) return false;
  if (attention.input(5) != nullptr) return false;
  const KvGeometry& kv = attention.graph.kv();
  return !is_quantised(kv.k_type) && !is_quantised(kv.v_type);
}

void record_attention(const NodeCall& call, const RopeStoreCall& in) {
  AttentionParams params = attention_params(call);
  params.q = in.q.address;
  params.q_strides = strides_of(in.q);
  params.k = in.k.address;
  params.v = in.v.address;
  params.table = in.table.address;
  params.k_strides = strides_of(in.k);
  params.v_strides = strides_of(in.v);
  params.table_strides = strides_of(in.table);
  params.style = static_cast<uint32_t>(in.rope->style);
  params.pairs = in.table.size(1);
  record_rows(call, params, gpu::kTokenRows, 0, 1, true);
}

/// One for each block of heads of a row that is split along the keys.
int64_t counters(const NodeView& node, const Tuning& tuning) {
  const TensorDesc& y = node.graph.value(node.node.outputs[0]).desc;
  return y.shape[1] * gpu::split_rows(y, kChunks, tuning.split_rows);
}

/// For the chunks of rows that are split along the keys.
int64_t scratch(const NodeView& node, const Tuning& tuning, Roles) {
  const TensorDesc& y = node.graph.value(node.node.outputs[0]).desc;
  return gpu::chunk_bytes(y, kChunks) * gpu::split_rows(y, kChunks, tuning.split_rows);
}

}  // namespace

const CudaOp& attention_cuda() {
  static const CudaOp op{.id = OpId::Attention,
                         .supports = supports,
                         .record = record,
                         .scratch = scratch,
                         .cache = CacheUse::reads,
                         .counters = counters,
                         .takes = takes,
                         .record_attention = record_attention};
  return op;
}

}  // namespace infer::cuda
