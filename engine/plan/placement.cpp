#include "engine/plan/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/core/checked.h"
#include "engine/ops/op.h"
#include "engine/plan/format_bytes.h"

namespace infer {
namespace {

/// Layers, then the output and the embedding.
int64_t unit_number(const Unit& unit, int64_t layers) {
  switch (unit.kind) {
    case UnitKind::embedding: return layers + 1;
    case UnitKind::output: return layers;
    default: return unit.layer;
  }
}

std::string unit_name(int64_t unit, int64_t layers) {
  if (unit > layers) return "the embedding";
  return unit == layers ? std::string("the output") : fmt::format("layer {}", unit);
}

/// Why a device does not compute a node; empty if it does.
std::string refusal(const Graph& graph, const Node& node, const Device& device,
                    std::span<const Weight> weights) {
  const Status capable = device.capability(graph, node);
  if (!capable.ok()) return fmt::format("'{}': {}", op_def(node.op()).name, capable.message());
  for (const ValueId id : node.inputs) {
    if (id == kNoValue) continue;
    const Value& value = graph.value(graph.storage(id));
    if (value.kind != Value::Kind::weight) continue;
    const int64_t bytes = round_up(device.packed_bytes(value.desc), device.alignment());
    if (bytes <= device.largest_buffer()) continue;
    return fmt::format("tensor '{}' needs a buffer of {}, the device allows at most {}",
                       weights[static_cast<size_t>(value.index)].name, format_bytes(bytes),
                       format_bytes(device.largest_buffer()));
  }
  return {};
}

}  // namespace

int32_t Placement::of(const Unit& unit) const {
  switch (unit.kind) {
    case UnitKind::embedding: return embedding;
    case UnitKind::output: return output;
    default: return layers.empty() ? 0 : layers[static_cast<size_t>(unit.layer)];
  }
}

int64_t Placement::offloaded() const {
  return std::ranges::count_if(layers, [](int32_t device) { return device > 0; }) +
         (output > 0 ? 1 : 0);
}

std::vector<std::vector<std::string>> refusals(const Graph& graph, int64_t layers,
                                               std::span<Device* const> devices,
                                               std::span<const Weight> weights) {
  std::vector<std::vector<std::string>> refused;
  for (const Device* device : devices) {
    std::vector<std::string>& units = refused.emplace_back(static_cast<size_t>(layers) + 2);
    for (const Node& node : graph.nodes()) {
      std::string& reason = units[static_cast<size_t>(unit_number(node.unit, layers))];
      if (reason.empty()) reason = refusal(graph, node, *device, weights);
    }
  }
  return refused;
}

Placement place_last(int64_t count, std::span<const int64_t> bytes, std::span<const int64_t> room,
                     const std::vector<std::vector<std::string>>& refused,
                     std::span<Device* const> devices) {
  const auto units = static_cast<int64_t>(bytes.size());
  const int64_t first = units - std::clamp<int64_t>(count, 0, units);
  Placement placement;
  placement.layers.assign(static_cast<size_t>(units - 1), 0);
  double total = 0;
  for (int64_t u = first; u < units; ++u)
    total += static_cast<double>(bytes[static_cast<size_t>(u)]);
  double all = 0;
  for (size_t d = 1; d < room.size(); ++d)
    all += static_cast<double>(std::max<int64_t>(room[d], 1));
  const auto give = [&](int64_t unit, size_t to) {
    if (to == 0) return;
    const std::string& reason = refused[to][static_cast<size_t>(unit)];
    if (!reason.empty()) {
      placement.refused.push_back(fmt::format("{} stays on {}: {} cannot compute {}",
                                              unit_name(unit, units - 1), devices[0]->info().name,
                                              devices[to]->info().name, reason));
      return;
    }
    int32_t& at = unit == units       ? placement.embedding
                  : unit == units - 1 ? placement.output
                                      : placement.layers[static_cast<size_t>(unit)];
    at = static_cast<int32_t>(to);
  };
  size_t device = 1;
  double given = 0;
  double reach = room.size() > 1 ? static_cast<double>(std::max<int64_t>(room[1], 1)) : 0;
  for (int64_t u = first; u < units; ++u) {
    const auto own = static_cast<double>(bytes[static_cast<size_t>(u)]);
    // A unit belongs where its middle lies.
    while (device + 1 < room.size() && (given + own / 2) * all > total * reach) {
      reach += static_cast<double>(std::max<int64_t>(room[++device], 1));
    }
    given += own;
    give(u, device);
  }
  if (first == 0) give(units, static_cast<size_t>(units > 1 ? placement.layers[0] : 1));
  return placement;
}

std::vector<PlacedSegment> placed_segments(const Graph& graph, const Placement& placement,
                                           bool each, Roles roles) {
  std::vector<PlacedSegment> placed;
  for (int32_t n = 0; n < static_cast<int32_t>(graph.nodes().size()); ++n) {
    const int32_t device = placement.of(graph.nodes()[static_cast<size_t>(n)].unit);
    if (each || placed.empty() || placed.back().device != device) {
      placed.push_back({{&graph, n, n, roles}, device});
    }
    placed.back().segment.end = n + 1;
  }
  return placed;
}

}  // namespace infer
