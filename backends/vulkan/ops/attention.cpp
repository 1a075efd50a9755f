// Attention: few rows are split along the keys, many share them in tiles. The tokens of prompts are
// computed by matrices where the device has them, and are a numeric class of their own then.
#include <algorithm>
#include <span>

#include "backends/gpu/split_rows.h"
#include "backends/vulkan/attend_matrix.h"
#include "backends/vulkan/cache.h"
#include "backends/vulkan/op.h"
#include "backends/vulkan/pooled.h"
#include "engine/core/checked.h"
#include "engine/graph/alibi.h"

namespace infer::vulkan {
namespace {

/// ops/attention.comp. The shaders of tiles use all but one or two of them.
struct Push {
  VkDeviceAddress step, q, slots, last_seen, sequences, sinks, y;
  StridePush q_strides, y_strides;
  uint32_t group;
  uint32_t kind;
  uint32_t k_offset, v_offset, k_row, v_row;
  float scale, softcap;
  uint32_t window;
  uint32_t key_dim;
  VkDeviceAddress chunks;  ///< or how many tiles a head of keys has
  VkDeviceAddress chosen;  ///< or slopes
};

/// ops/attention_merge.comp
struct MergePush {
  VkDeviceAddress step, chunks, slots, last_seen, sinks, y;
  StridePush y_strides;
  uint32_t window;
};

/// glsl/merge.glsl
constexpr int64_t kChunks = 32;
/// Query heads of a row that share the keys that a workgroup loads, at most.
constexpr int64_t kMostHeads = 4;
/// Elements of a value that parts of a tile's workgroup have registers for, and of all parts
/// together.
constexpr int64_t kMostMix = 64;
constexpr int64_t kMostTileMix = 1024;

int64_t heads_together(int64_t group) {
  int64_t heads = std::min(group, kMostHeads);
  while (group % heads != 0) --heads;
  return heads;
}

/// Records a node in one of four ways, or in two of them if a step has tokens of both roles.
class Attention {
 public:
  explicit Attention(const NodeCall& call)
      : call_(call),
        params_(call.params<op::Attention>()),
        kv_(call.graph.kv()),
        shape_(kv_.layers[static_cast<size_t>(params_.kv_layer)]),
        at_(call.kv_layout.layers[static_cast<size_t>(params_.kv_layer)]),
        rows_(call.inputs[0].dim(2)),
        group_(call.inputs[0].dim(1) / shape_.heads) {}

  void record() const {
    const Tuning& tuning = call_.tuning;
    if (sees_blocks()) {
      record_pooled(call_, {.slots_layer = params_.kv_layer,
                            .blocks_layer = params_.kv_layer,
                            .scale = params_.scale,
                            .sinks = sinks(),
                            .chosen = chosen()});
      return;
    }
    const std::optional<AttendTile> by_matrices = matrix_tile();
    if (by_matrices) {
      record_matrices(*by_matrices);
      if (call_.roles != Roles::both) return;
      // Generated rows come first. A few of them leave most of the device idle, if not split.
      const int64_t few = split_rows();
      if (few < rows_) record_rows(1, {.first = few, .rows = rows_ - few, .up_to = kGenerated});
      if (few > 0) {
        record_rows(kChunks, {.rows = few, .up_to = kGenerated});
        record_merge({.rows = few, .up_to = kGenerated});
      }
      return;
    }
    const Part all{.rows = rows_};
    if (split_rows() == rows_) {
      record_rows(kChunks, all);
      record_merge(all);
    } else if (tuning.tile_queries > 0 && shape_.v_dim <= kMostTileMix && !chosen().given() &&
               call_.roles != Roles::generated) {  // such rows are of different sequences
      record_tiles();
    } else {
      record_rows(1, all);
    }
  }

 private:
  /// Counts of a step: glsl/common.glsl.
  static constexpr uint32_t kTokens = 0;
  static constexpr uint32_t kGenerated = 2;
  /// Rows from `first` on, and no more than that count of the step has.
  struct Part {
    int64_t first = 0;
    int64_t rows = 0;
    uint32_t up_to = kTokens;
  };

  int64_t split_rows() const {
    return gpu::split_rows(call_.graph.value(call_.node.outputs[0]).desc, kChunks,
                           call_.tuning.split_rows);
  }
  /// glsl/merge.glsl: kChunked.
  uint32_t window() const {
    return static_cast<uint32_t>(params_.window) | (params_.chunked ? 0x80000000u : 0u);
  }
  const Operand& slots() const { return call_.inputs[1]; }
  /// The last slots that rows see: their own, unless the node says others.
  const Operand& last_seen() const { return call_.inputs[4].given() ? call_.inputs[4] : slots(); }
  const Operand& sinks() const { return call_.inputs[3]; }
  /// Lists of the slots that rows see. Such rows share no keys with others: they are computed one
  /// by one.
  const Operand& chosen() const { return call_.inputs[5]; }
  const Operand& y() const { return call_.outputs[0]; }
  /// Whether rows have a list of single slots, and all heads the same keys: the slots are blocks
  /// then.
  bool sees_blocks() const {
    return chosen().given() && chosen().dim(1) == 1 && params_.chosen_block == 1 &&
           !params_.chosen_by_head && params_.softcap == 0 && shape_.heads == 1 &&
           at_.k_element == 0 && pooled_takes(shape_);
  }
  /// Of all heads, if scores have biases.
  VkDeviceAddress slopes() const {
    if (params_.alibi <= 0) return 0;
    const std::vector<float> slopes =
        alibi_slopes(call_.inputs[0].dim(1), params_.alibi, params_.alibi_factor);
    return call_.recorder.keep(std::as_bytes(std::span(slopes)));
  }

  Push push() const {
    const Operand& q = call_.inputs[0];
    return {.step = call_.step,
            .q = q.address,
            .slots = slots().address,
            .last_seen = last_seen().address,
            .sequences = call_.inputs[2].address,
            .sinks = sinks().address,
            .y = y().address,
            .q_strides = strides_of(q),
            .y_strides = strides_of(y()),
            .group = static_cast<uint32_t>(group_),
            .kind = static_cast<uint32_t>(at_.kind),
            .k_offset = static_cast<uint32_t>(at_.k_offset),
            .v_offset = static_cast<uint32_t>(at_.v_offset),
            .k_row = static_cast<uint32_t>(at_.k_row),
            .v_row = static_cast<uint32_t>(at_.v_row),
            .scale = params_.scale,
            .softcap = params_.softcap,
            .window = window(),
            .key_dim = q.size(0),
            .chunks = call_.scratch,
            .chosen = chosen().given() ? chosen().address : slopes()};
  }

  /// Those that follow from the cache and the node alone.
  AttentionConstants constants() const {
    return {.key_type = *cache_type(kv_.k_type),
            .value_type = *cache_type(kv_.v_type),
            .key_dim = static_cast<uint32_t>(shape_.k_dim),
            .value_dim = static_cast<uint32_t>(shape_.v_dim),
            .across = at_.k_element > 0 ? 1u : 0u,
            .sinks = sinks().given() ? 1u : 0u,
            .chosen = chosen().given() ? chosen().size(0) : 0u,
            .chosen_block = static_cast<uint32_t>(params_.chosen_block),
            .chosen_shift = params_.chosen_by_head ? 0u : 1u,
            .chosen_lists = chosen().given() ? chosen().size(1) : 1u,
            .alibi = params_.alibi > 0 ? 1u : 0u};
  }

  void record_rows(int64_t chunks, const Part& part) const {
    const int64_t heads = heads_together(group_);
    AttentionConstants all = constants();
    all.first_row = static_cast<uint32_t>(part.first);
    all.up_to = part.up_to;
    all.heads = static_cast<uint32_t>(heads);
    all.split = chunks > 1 ? 1 : 0;
    call_.recorder.dispatch("attention", all, push(),
                            {shape_.heads * group_ / heads, part.rows, chunks}, Parts::along_y);
  }

  void record_merge(const Part& part) const {
    AttentionConstants all = constants();
    all.up_to = part.up_to;
    call_.recorder.barrier();
    call_.recorder.dispatch("attention_merge", all,
                            MergePush{.step = call_.step,
                                      .chunks = call_.scratch,
                                      .slots = slots().address,
                                      .last_seen = last_seen().address,
                                      .sinks = sinks().address,
                                      .y = y().address,
                                      .y_strides = strides_of(y()),
                                      .window = window()},
                            {div_ceil<int64_t>(y().dim(0), 64), y().dim(1), part.rows});
  }

  bool whole_queries() const {
    const Operand& q = call_.inputs[0];
    return q.address % 8 == 0 && q.value->desc.stride[1] % 8 == 0 &&
           whole_rows(DType::f32, shape_.k_dim, q.value->desc.stride[2]);
  }

  void record_tiles() const {
    const bool handed = call_.tuning.handed_keys;
    AttentionConstants all = constants();
    all.queries = call_.tuning.tile_queries;
    all.parts = handed ? 1 : shape_.v_dim > 4 * kMostMix ? 8 : 4;
    all.workgroup = all.queries * all.parts;
    all.keys_whole = whole_rows(kv_.k_type, shape_.k_dim, at_.k_row) ? 1 : 0;
    all.values_whole = whole_rows(kv_.v_type, shape_.v_dim, at_.v_row) ? 1 : 0;
    all.queries_whole = handed && whole_queries() ? 1 : 0;
    record_tiled(handed ? "attention_handed" : "attention_tile", all);
  }

  /// The tile of the tokens of prompts; nothing if they are computed as generated tokens are. A
  /// cache of float32 keeps its precision.
  std::optional<AttendTile> matrix_tile() const {
    if (!call_.tuning.matrices || call_.roles == Roles::generated) return std::nullopt;
    if (chosen().given()) return std::nullopt;
    if (kv_.k_type == DType::f32 || kv_.v_type == DType::f32) return std::nullopt;
    return attend_tile(call_.device, call_.tuning, shape_.k_dim, shape_.v_dim, at_.k_element > 0);
  }

  void record_matrices(const AttendTile& tile) const {
    AttentionConstants all = constants();
    all.workgroup = tile.workgroup;
    all.queries = tile.queries;
    all.parts = tile.subgroups;
    all.subgroup_lanes = call_.device.subgroup;
    all.tokens = tile.tokens;
    all.held = tile.held ? 1 : 0;
    record_tiled("matrix_attention_" + call_.device.matrices.name(), all);
  }

  void record_tiled(const std::string& shader, const AttentionConstants& all) const {
    const int64_t tiles = div_ceil<int64_t>(rows_ * group_, all.queries);
    Push pushed = push();
    pushed.chunks = static_cast<VkDeviceAddress>(tiles);
    call_.recorder.dispatch(shader, all, pushed, {shape_.heads, tiles, 1}, Parts::along_y);
  }

  const NodeCall& call_;
  const op::Attention& params_;
  const KvGeometry& kv_;
  const KvLayerShape& shape_;
  const KvLayerLayout& at_;
  int64_t rows_, group_;
};

void record(const NodeCall& call) { Attention(call).record(); }

/// For the parts of rows that are split along the keys.
int64_t scratch(const NodeView& node, const Tuning& tuning, Roles) {
  const TensorDesc& y = node.graph.value(node.node.outputs[0]).desc;
  return gpu::chunk_bytes(y, kChunks) * gpu::split_rows(y, kChunks, tuning.split_rows);
}

}  // namespace

const VulkanOp& attention_vulkan() {
  static const VulkanOp op{OpId::Attention, cache_supports, record, scratch, CacheUse::reads};
  return op;
}

}  // namespace infer::vulkan
