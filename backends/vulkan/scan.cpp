#include "backends/vulkan/scan.h"

#include <algorithm>

#include "engine/core/checked.h"

namespace infer::vulkan {
namespace {

// ops/scan.comp
struct ScanGates {
  VkDeviceAddress size, gain, a, bias, pass;
  StridePush size_strides, gain_strides;
  uint32_t size_width, gain_width;
  float bound, slope;
};
struct ScanPush {
  VkDeviceAddress step, gates, write, read, v, y, slots, sequences;
  StridePush write_strides, read_strides, v_strides, y_strides;
  uint32_t kind, offset;
  float write_scale, read_scale;
};

constexpr int64_t kLanes = 256;
constexpr int64_t kMostRows = 512;
/// Sequences that are computed beside each other, at most.
constexpr int64_t kMostAtOnce = 16;

}  // namespace

void record_scan(const NodeCall& call, const gpu::ScanCall& in) {
  const KvLayerLayout& at = call.kv_layout.layers[static_cast<size_t>(in.kv_layer)];
  const ScanGates gates{.size = in.size.address,
                        .gain = in.gain.address,
                        .a = in.a.address,
                        .bias = in.bias.address,
                        .pass = in.pass.address,
                        .size_strides = in.size.given() ? strides_of(in.size) : StridePush{},
                        .gain_strides = in.gain.given() ? strides_of(in.gain) : StridePush{},
                        .size_width = in.size.given() ? in.size.size(0) : 1,
                        .gain_width = in.gain.given() ? in.gain.size(0) : 1,
                        .bound = in.bound,
                        .slope = in.slope};
  const ScanConstants constants{.rows = in.write.size(0),
                                .columns = in.v.size(0),
                                .keys = in.write.size(1),
                                .tiled = in.tiled ? 1u : 0u,
                                .corrects = in.gain.given() ? 1u : 0u,
                                .by_channel = in.by_channel ? 1u : 0u,
                                .by_element = in.by_element ? 1u : 0u};
  const int64_t offset = at.k_offset + in.at * int64_t{sizeof(float)};
  call.recorder.dispatch(
      "scan", constants,
      ScanPush{.step = call.step,
               .gates = call.recorder.keep(std::as_bytes(std::span(&gates, 1))),
               .write = in.write.address,
               .read = in.read.address,
               .v = in.v.address,
               .y = in.y.address,
               .slots = in.slots.address,
               .sequences = in.sequences.address,
               .write_strides = strides_of(in.write),
               .read_strides = strides_of(in.read),
               .v_strides = strides_of(in.v),
               .y_strides = strides_of(in.y),
               .kind = static_cast<uint32_t>(at.kind),
               .offset = static_cast<uint32_t>(offset),
               .write_scale = in.write_scale,
               .read_scale = in.read_scale},
      {div_ceil(in.v.dim(0), kStateColumns), in.v.dim(1), std::min(in.v.dim(2), kMostAtOnce)});
}

Status scan_supports(const NodeView& node, int64_t rows) {
  if (rows > kMostRows) {
    return error(StatusCode::unsupported, "a state of {} rows; at most {} are supported", rows,
                 kMostRows);
  }
  if (node.device.limits.maxComputeWorkGroupInvocations >= kLanes) return {};
  return error(StatusCode::unsupported, "workgroups of {} invocations are needed", kLanes);
}

}  // namespace infer::vulkan
