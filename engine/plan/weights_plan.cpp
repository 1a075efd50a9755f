#include "engine/plan/weights_plan.h"

#include <algorithm>
#include <utility>

#include "engine/core/checked.h"
#include "engine/plan/format_bytes.h"

namespace infer {
namespace {

/// Pages of a mapped file that come into memory around those touched, on either side of a weight.
constexpr int64_t kFaultAround = 64 << 10;

Status add_weight(WeightsPlan& plan, const Value& value, const Device& device,
                  std::span<const Weight> weights) {
  const auto index = static_cast<size_t>(value.index);
  WeightPlace& place = plan.places[index];
  const int64_t bytes = round_up(device.packed_bytes(value.desc), device.alignment());
  if (bytes > device.largest_buffer()) {
    return error(StatusCode::does_not_fit, "tensor '{}' needs a buffer of {}, {} allows at most {}",
                 weights[index].name, format_bytes(bytes), device.info().name,
                 format_bytes(device.largest_buffer()));
  }
  if (plan.buffers.empty() || bytes > device.largest_buffer() - plan.buffers.back()) {
    plan.buffers.push_back(0);
  }
  place.buffer = static_cast<int32_t>(plan.buffers.size()) - 1;
  place.offset = plan.buffers.back();
  plan.buffers.back() += bytes;
  plan.packed += bytes;
  return {};
}

}  // namespace

Result<WeightsPlan> place_weights(std::span<const PlacedSegment> segments, int32_t number,
                                  const Device& device, std::span<const Weight> weights,
                                  std::span<const WeightPlace> lent,
                                  const std::vector<bool>& streamed,
                                  const std::vector<bool>& mapped) {
  WeightsPlan plan;
  plan.places.resize(weights.size());
  int64_t before = 0;
  int64_t now = 0;
  int32_t layer = INT32_MIN;
  for (const PlacedSegment& placed : segments) {
    if (placed.device != number) continue;
    const Graph& graph = *placed.segment.graph;
    for (const Node& node : placed.segment.nodes()) {
      if (node.unit.layer != layer) {
        before = std::exchange(now, 0);
        layer = node.unit.layer;
      }
      for (const ValueId id : node.inputs) {
        if (id == kNoValue) continue;
        const Value& value = graph.value(graph.storage(id));
        if (value.kind != Value::Kind::weight) continue;
        const auto weight = static_cast<size_t>(value.index);
        if (weight < lent.size() && lent[weight].used()) continue;
        if (weight < streamed.size() && streamed[weight]) continue;
        WeightPlace& place = plan.places[weight];
        if (weight < mapped.size() && mapped[weight]) {
          const int64_t bytes = value.desc.extent_bytes();
          if (!std::exchange(place.mapped, true)) plan.mapped += bytes;
          now += bytes + 2 * kFaultAround;
        } else if (!place.used()) {
          INFER_CHECK_R(add_weight(plan, value, device, weights));
        }
      }
      plan.window = std::max(plan.window, before + now);
    }
  }
  return plan;
}

}  // namespace infer
