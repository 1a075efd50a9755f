#include "engine/plan/model_units.h"

#include <algorithm>
#include <numeric>

#include "engine/plan/planner.h"

namespace infer {
namespace {

/// Calls `use` with each weight that a node reads.
template <typename Use>
void for_weights(const Graph& graph, const Node& node, Use use) {
  for (const ValueId id : node.inputs) {
    if (id == kNoValue) continue;
    const Value& value = graph.value(graph.storage(id));
    if (value.kind == Value::Kind::weight) use(value);
  }
}

}  // namespace

Result<ModelUnits> ModelUnits::create(const Model& model, const WeightTable& weights,
                                      std::span<Device* const> devices, const Step& step) {
  ModelUnits units;
  units.layers_ = model.info().layers;
  INFER_TRY(Graph graph, build_graph(model, weights, step.rows, step.outputs, step.k_type,
                                     step.v_type, {}, {.adapters = true}));
  units.graph_ = std::make_unique<Graph>(std::move(graph));
  if (devices.size() == 1) return units;
  units.refused_ = refusals(*units.graph_, units.layers_, devices, weights.source().weights());
  units.bytes_.assign(static_cast<size_t>(unit_count(units.layers_)), 0);
  units.cache_of_.resize(static_cast<size_t>(units.layers_));
  std::iota(units.cache_of_.begin(), units.cache_of_.end(), 0);
  if (model.info().shares_cache) units.shared_cache_.assign(units.cache_of_.size(), -1);
  for (const Node& node : units.graph_->nodes()) {
    const int32_t cache = cache_layer(node);
    if (cache >= 0 && model.info().shares_cache) {
      units.shared_cache_[static_cast<size_t>(node.unit.layer)] =
          units.graph_->kv().layers[static_cast<size_t>(cache)].place;
    } else if (cache >= 0 && node.unit.layer >= 0) {
      units.cache_of_[static_cast<size_t>(node.unit.layer)] =
          units.graph_->kv().layers[static_cast<size_t>(cache)].layer;
    }
    int64_t& bytes = units.bytes_[static_cast<size_t>(unit_number(node.unit, units.layers_))];
    for_weights(*units.graph_, node,
                [&](const Value& weight) { bytes += devices.back()->packed_bytes(weight.desc); });
  }
  return units;
}

bool ModelUnits::has_experts() const {
  return std::ranges::any_of(graph_->nodes(),
                             [](const Node& node) { return node.unit.kind == UnitKind::experts; });
}

Result<std::vector<int32_t>> ModelUnits::fixed_units(std::span<const int32_t> weight_devices,
                                                     std::span<const Weight> weights,
                                                     std::span<const DeviceInfo> devices) const {
  std::vector<int32_t> fixed;
  if (weight_devices.empty() && shared_cache_.empty()) return fixed;
  fixed.assign(static_cast<size_t>(unit_count(layers_)), -1);
  const auto fix_caches = [&] {
    for (size_t layer = 0; layer < shared_cache_.size(); ++layer) {
      const Unit unit{UnitKind::attention, static_cast<int32_t>(layer)};
      if (shared_cache_[layer] < 0) continue;
      fixed[static_cast<size_t>(unit_number(unit, layers_))] = shared_cache_[layer];
    }
    return fixed;
  };
  if (weight_devices.empty()) return fix_caches();
  std::vector<int32_t> decided(fixed.size(), -1);  // by which weight
  std::vector<bool> embeds(weights.size(), false);
  Status divided;
  for (const Node& node : graph_->nodes()) {
    const auto unit = static_cast<size_t>(unit_number(node.unit, layers_));
    for_weights(*graph_, node, [&](const Value& value) {
      const auto weight = static_cast<size_t>(value.index);
      if (node.unit.kind == UnitKind::embedding) embeds[weight] = true;
      const int32_t device = weight_devices[weight];
      if (device < 0 || (node.unit.kind == UnitKind::output && embeds[weight])) return;
      if (fixed[unit] >= 0 && fixed[unit] != device && divided.ok()) {
        const auto other = static_cast<size_t>(decided[unit]);
        divided =
            error(StatusCode::invalid_argument,
                  "tensors '{}' and '{}' are placed together, but one is for {} and the other "
                  "for {}",
                  weights[other].name, weights[weight].name,
                  devices[static_cast<size_t>(fixed[unit])].name,
                  devices[static_cast<size_t>(device)].name);
      }
      fixed[unit] = device;
      decided[unit] = value.index;
    });
  }
  if (!divided.ok()) return tl::unexpected(divided);
  return fix_caches();
}

}  // namespace infer
