#include "engine/plan/stream_plan.h"

#include <algorithm>

#include "engine/core/checked.h"

namespace infer {
namespace {

/// A weight of this size may be on both devices: norms, biases, routers.
constexpr int64_t kMostTwice = int64_t{8} << 20;
/// Tokens for which it takes about as long to compute with a weight as to bring it over a bus.
constexpr int64_t kLeastTokens = 32;

constexpr UnitKind kKinds[] = {UnitKind::attention, UnitKind::feed_forward, UnitKind::experts};

/// Calls `use` with each weight that a node reads.
template <typename Use>
void for_weights(const Graph& graph, const Node& node, const Use& use) {
  for (const ValueId id : node.inputs) {
    if (id == kNoValue) continue;
    const Value& value = graph.value(graph.storage(id));
    if (value.kind == Value::Kind::weight) use(value);
  }
}

/// How a device other than the host's processor may come by the weights of its parts.
class Candidates {
 public:
  Candidates(const Graph& graph, std::span<Device* const> devices, const Refusals& refused,
             int64_t layers)
      : graph_(graph), devices_(devices), refused_(refused), layers_(layers) {
    nodes_.resize(static_cast<size_t>(unit_count(layers)));
    for (const Node& node : graph.nodes()) {
      for_weights(graph, node, [&](const Value& weight) {
        const auto index = static_cast<size_t>(weight.index);
        if (index >= uses_.size()) uses_.resize(index + 1, 0);
        ++uses_[index];
      });
      if (cache_layer(node) >= 0) continue;  // it stays with its cache
      nodes_[static_cast<size_t>(unit_number(node.unit, layers))].push_back(&node);
    }
  }

  /// Whether the device gets the matrices of this weight for each step.
  bool streams(const Value& weight, int32_t device) const {
    if (uses_[static_cast<size_t>(weight.index)] > 1) return false;  // it would need two places
    const std::optional<HostLayout> layout = devices_[0]->host_layout(weight.desc);
    return layout && devices_[static_cast<size_t>(device)]->streams(weight.desc, *layout);
  }

  bool has_nodes(const Unit& unit) const {
    return !nodes_[static_cast<size_t>(unit_number(unit, layers_))].empty();
  }

  /// How a device comes by the weights of a unit.
  enum class Way : uint8_t {
    none,      ///< it cannot compute the unit, or has no room for a weight that it would keep
    kept,      ///< all are small: it has them as well
    streamed,  ///< it gets at least some for each step
  };
  Way way(const Unit& unit, int32_t device) const {
    const auto number = static_cast<size_t>(unit_number(unit, layers_));
    if (!refused_[static_cast<size_t>(device)][number].empty()) return Way::none;
    Way found = Way::kept;
    for (const Node* node : nodes_[number]) {
      for_weights(graph_, *node, [&](const Value& weight) {
        if (found == Way::none) return;
        if (streams(weight, device)) {
          found = Way::streamed;
        } else if (weight.desc.extent_bytes() > kMostTwice) {
          found = Way::none;
        }
      });
    }
    return found;
  }

 private:
  const Graph& graph_;
  std::span<Device* const> devices_;
  const Refusals& refused_;
  int64_t layers_;
  std::vector<std::vector<const Node*>> nodes_;  ///< by unit
  std::vector<int32_t> uses_;                    ///< by index of the source's weights
};

/// The device of a layer of the host for tokens of prompts.
int32_t device_for(const LayerPlace& layer) {
  if (layer.attention > 0) return layer.attention;
  return layer.feed_forward > 0 ? layer.feed_forward : 1;
}

using Way = Candidates::Way;

int32_t& at(LayerPlace& layer, UnitKind kind) {
  if (kind == UnitKind::attention) return layer.attention;
  return kind == UnitKind::experts ? layer.experts : layer.feed_forward;
}

bool streams_in(const Placement& placement, const Node& node) {
  return placement.of(node, Roles::prompt) != placement.of(node.unit);
}

}  // namespace

std::vector<StreamPlan::Load> StreamPlan::loads(const Segment& segment,
                                                const Device& device) const {
  const auto is_streamed = [&](const Value& value) {
    const auto index = static_cast<size_t>(value.index);
    return value.kind == Value::Kind::weight && index < streamed.size() && streamed[index];
  };
  std::vector<Load> loads;
  int64_t offset = 0;
  for (const Node& node : segment.nodes()) {
    for (const ValueId id : node.inputs) {
      const ValueId value = id == kNoValue ? kNoValue : segment.graph->storage(id);
      if (value == kNoValue || !is_streamed(segment.graph->value(value))) continue;
      loads.push_back({value, offset});
      offset += round_up(device.packed_bytes(segment.graph->value(value).desc), device.alignment());
    }
  }
  return loads;
}

std::vector<StreamPlan> plan_streams(const Graph& graph, std::span<Device* const> devices,
                                     const Refusals& refused, Placement& placement) {
  std::vector<StreamPlan> plans(devices.size());
  const auto layers = static_cast<int64_t>(placement.layers.size());
  const Candidates candidates(graph, devices, refused, layers);
  std::vector<LayerPlace> prompts = placement.layers;
  for (int32_t l = 0; l < layers; ++l) {
    LayerPlace& layer = prompts[static_cast<size_t>(l)];
    const int32_t device = device_for(placement.layers[static_cast<size_t>(l)]);
    for (const UnitKind kind : kKinds) {
      if (at(layer, kind) == 0 && candidates.way({kind, l}, device) == Way::streamed) {
        at(layer, kind) = device;
      }
    }
    // The router goes with its experts.
    if (layer.experts == device && layer.feed_forward == 0 &&
        candidates.way({UnitKind::feed_forward, l}, device) == Way::kept) {
      layer.feed_forward = device;
    }
    if (!candidates.has_nodes({UnitKind::experts, l})) layer.experts = layer.feed_forward;
  }
  if (prompts == placement.layers) return plans;
  placement.prompts = std::move(prompts);
  for (const PlacedSegment& placed : placed_segments(graph, placement, false, Roles::prompt)) {
    if (placed.device == 0) continue;
    StreamPlan& plan = plans[static_cast<size_t>(placed.device)];
    const Device& device = *devices[static_cast<size_t>(placed.device)];
    int64_t bytes = 0;
    for (const Node& node : placed.segment.nodes()) {
      if (!streams_in(placement, node)) continue;
      for_weights(graph, node, [&](const Value& weight) {
        if (!candidates.streams(weight, placed.device)) return;
        const auto index = static_cast<size_t>(weight.index);
        if (index >= plan.streamed.size()) plan.streamed.resize(index + 1, false);
        plan.streamed[index] = true;
        plan.weights.push_back({weight.desc, *devices[0]->host_layout(weight.desc), nullptr, {}});
        bytes += round_up(device.packed_bytes(weight.desc), device.alignment());
      });
    }
    plan.place_bytes = std::max(plan.place_bytes, bytes);
  }
  for (size_t d = 1; d < devices.size(); ++d) {
    StreamPlan& plan = plans[d];
    if (plan.weights.empty()) continue;
    plan.work_bytes = round_up(devices[d]->stream_bytes(plan.weights), devices[d]->alignment());
  }
  return plans;
}

int64_t least_streamed_tokens(const Graph& graph, const Placement& placement) {
  if (placement.prompts.empty()) return 0;
  int64_t most = 1;  // experts for each that is used
  for (const Node& node : graph.nodes()) {
    if (node.op() != OpId::MoeMatmul || !streams_in(placement, node)) continue;
    const int64_t experts = graph.value(node.inputs[1]).desc.shape[2];
    const int64_t used = std::max<int64_t>(graph.value(node.inputs[2]).desc.shape[0], 1);
    most = std::max(most, experts / used);
  }
  return most * kLeastTokens;
}

}  // namespace infer
