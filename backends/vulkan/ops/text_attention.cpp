#include <vector>

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
};

constexpr int64_t kQueries = 16;  ///< rows of a workgroup
/// Elements of a value that a workgroup has registers for.
constexpr int64_t kMostMix = 512;
/// Floats of shared memory beside the queries.
constexpr int64_t kSharedBeside = 64 * kQueries + 3 * 64;

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

void record(const NodeCall& call) {
  const auto& p = call.params<op::TextAttention>();
  const Operand& q = call.inputs[0];
  const Operand& k = call.inputs[1];
  const Operand& v = call.inputs[2];
  const Operand& sinks = call.inputs[5];
  const Operand& y = call.outputs[0];
  std::vector<float> slopes;
  for (int64_t h = 0; p.alibi && h < q.dim(1); ++h) slopes.push_back(alibi_slope(h, q.dim(1)));
  const TextAttentionConstants constants{.key_dim = q.size(0),
                                         .value_dim = v.size(0),
                                         .group = q.size(1) / k.size(1),
                                         .sinks = sinks.given() ? 1u : 0u,
                                         .alibi = p.alibi ? 1u : 0u};
  call.recorder.dispatch(
      "text_attention", constants,
      Push{.step = call.step,
           .q = q.address,
           .k = k.address,
           .v = v.address,
           .y = y.address,
           .begins = call.inputs[3].address,
           .ends = call.inputs[4].address,
           .sinks = sinks.address,
           .slopes = p.alibi ? call.recorder.keep(std::as_bytes(std::span(slopes))) : 0,
           .q_strides = strides_of(q),
           .k_strides = strides_of(k),
           .v_strides = strides_of(v),
           .y_strides = strides_of(y),
           .scale = p.scale,
           .softcap = p.softcap,
           .rows_before = p.before,
           .rows_after = p.after,
           .chunk = static_cast<uint32_t>(p.chunk)},
      {div_ceil(q.dim(2), kQueries), q.dim(1), 1});
}

}  // namespace

const VulkanOp& text_attention_vulkan() {
  static const VulkanOp op{OpId::TextAttention, supports, record};
  return op;
}

}  // namespace infer::vulkan
