#include <vector>

#include "backends/vulkan/attend_matrix.h"
#include "backends/vulkan/op.h"
#include "engine/core/checked.h"
#include "engine/graph/alibi.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, q, k, v, y, begins, ends, sinks, slopes;
  StridePush q_strides, k_strides, v_strides, y_strides;
  float scale, softcap;
  int32_t rows_before, rows_after;
  uint32_t chunk;
  uint32_t tiles;
};

constexpr int64_t kQueries = 16;  ///< rows of a workgroup
/// Elements of a value that a workgroup has registers for.
constexpr int64_t kMostMix = 512;
/// Floats of shared memory beside the queries.
constexpr int64_t kSharedBeside = 64 * kQueries + 3 * 64;

int64_t padded(int64_t dim) { return round_up<int64_t>(dim, 16); }

Status supports(const NodeView& node) {
  const int64_t value = node.input(2)->desc.shape[0];
  if (value > kMostMix) {
    return error(StatusCode::unsupported, "values of {} elements; at most {} are supported", value,
                 kMostMix);
  }
  const int64_t bytes =
      (kQueries * node.input(0)->desc.shape[0] + kSharedBeside) * int64_t{sizeof(float)};
  if (bytes <= node.device.limits.maxComputeSharedMemorySize) return {};
  return error(StatusCode::unsupported, "{} bytes of shared memory are needed; it has {}", bytes,
               node.device.limits.maxComputeSharedMemorySize);
}

/// Of heads whose sizes are padded; nothing if the rows are computed in float32.
std::optional<AttendTile> matrix_tile(const PhysicalDevice& device, const Tuning& tuning,
                                      Roles roles, int64_t k_dim, int64_t v_dim) {
  if (!tuning.matrices || roles == Roles::generated) return std::nullopt;
  return attend_tile(device, tuning, padded(k_dim), padded(v_dim), false);
}

/// ops/text_halves.comp
struct HalvesPush {
  VkDeviceAddress step, x, y;
  StridePush x_strides, y_strides;
  uint32_t dim, padded;
  uint32_t rows;
};

/// Bytes of keys or values as float16, [padded, rows, heads].
int64_t halves_bytes(int64_t dim, int64_t heads, int64_t rows) {
  return padded(dim) * rows * heads * int64_t{sizeof(uint16_t)};
}

/// Makes them at `to`; returns their strides.
StridePush record_halves(const NodeCall& call, const Operand& x, VkDeviceAddress to) {
  const auto width = static_cast<uint32_t>(padded(x.dim(0)));
  const StridePush strides{static_cast<uint32_t>(width * x.dim(2)), width};
  call.recorder.dispatch("text_halves",
                         HalvesPush{.step = call.step,
                                    .x = x.address,
                                    .y = to,
                                    .x_strides = strides_of(x),
                                    .y_strides = strides,
                                    .dim = x.size(0),
                                    .padded = width,
                                    .rows = shape_of(x).rows},
                         {div_ceil<int64_t>(x.dim(2) * width / 8, 64), x.dim(1), 1});
  return strides;
}

void record(const NodeCall& call) {
  const auto& p = call.params<op::TextAttention>();
  const Operand& q = call.inputs[0];
  const Operand& k = call.inputs[1];
  const Operand& v = call.inputs[2];
  const Operand& sinks = call.inputs[5];
  const Operand& y = call.outputs[0];
  const std::vector<float> slopes = alibi_slopes(q.dim(1), p.alibi, p.alibi_factor);
  TextAttentionConstants constants{.key_dim = q.size(0),
                                   .value_dim = v.size(0),
                                   .group = q.size(1) / k.size(1),
                                   .sinks = sinks.given() ? 1u : 0u,
                                   .alibi = p.alibi > 0 ? 1u : 0u,
                                   .rows = shape_of(y).rows};
  Push push{.step = call.step,
            .q = q.address,
            .k = k.address,
            .v = v.address,
            .y = y.address,
            .begins = call.inputs[3].address,
            .ends = call.inputs[4].address,
            .sinks = sinks.address,
            .slopes = p.alibi > 0 ? call.recorder.keep(std::as_bytes(std::span(slopes))) : 0,
            .q_strides = strides_of(q),
            .k_strides = strides_of(k),
            .v_strides = strides_of(v),
            .y_strides = strides_of(y),
            .scale = p.scale,
            .softcap = p.softcap,
            .rows_before = p.before,
            .rows_after = p.after,
            .chunk = static_cast<uint32_t>(p.chunk),
            .tiles = 0};
  const std::optional<AttendTile> tile =
      matrix_tile(call.device, call.tuning, call.roles, q.dim(0), v.dim(0));
  if (tile) {
    push.k = call.scratch;
    push.v =
        call.scratch + static_cast<VkDeviceAddress>(halves_bytes(k.dim(0), k.dim(1), k.dim(2)));
    push.k_strides = record_halves(call, k, push.k);
    push.v_strides = record_halves(call, v, push.v);
    call.recorder.barrier();
    constants.workgroup = tile->workgroup;
    constants.text_key_dim = q.size(0);
    constants.text_value_dim = v.size(0);
    constants.key_dim = static_cast<uint32_t>(padded(q.dim(0)));
    constants.value_dim = static_cast<uint32_t>(padded(v.dim(0)));
    constants.subgroups = tile->subgroups;
    constants.subgroup_lanes = call.device.subgroup;
    constants.tokens = tile->tokens;
    constants.held = tile->held ? 1 : 0;
    const int64_t tiles = div_ceil<int64_t>(q.dim(2) * int64_t{constants.group}, tile->queries);
    push.tiles = static_cast<uint32_t>(tiles);
    call.recorder.dispatch("matrix_text_attention_" + call.device.matrices.name(), constants, push,
                           {k.dim(1), tiles, 1}, Parts::along_y);
    return;
  }
  call.recorder.dispatch("text_attention", constants, push,
                         {div_ceil(q.dim(2), kQueries), q.dim(1), 1}, Parts::along_y);
}

/// Keys and values as float16.
int64_t scratch(const NodeView& node, const Tuning& tuning, Roles roles) {
  const auto& k = node.input(1)->desc.shape;
  const auto& v = node.input(2)->desc.shape;
  if (!matrix_tile(node.device, tuning, roles, k[0], v[0])) return 0;
  return halves_bytes(k[0], k[1], k[2]) + halves_bytes(v[0], v[1], v[2]);
}

}  // namespace

const VulkanOp& text_attention_vulkan() {
  static const VulkanOp op{OpId::TextAttention, supports, record, scratch};
  return op;
}

}  // namespace infer::vulkan
