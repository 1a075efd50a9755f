#include "engine/plan/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "engine/core/checked.h"
#include "engine/ops/op.h"
#include "engine/plan/format_bytes.h"

namespace infer {
namespace {

constexpr int64_t kLayerUnits = 3;

std::string layer_unit_name(UnitKind kind, int64_t layer) {
  switch (kind) {
    case UnitKind::feed_forward: return fmt::format("the feed-forward part of layer {}", layer);
    case UnitKind::experts: return fmt::format("the expert part of layer {}", layer);
    default: return fmt::format("layer {}", layer);  // what stays where its attention stays
  }
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

/// Gives units to devices, unless these refuse.
class Placer {
 public:
  Placer(const Refusals& refused, std::span<Device* const> devices, int64_t layers)
      : refused_(refused), devices_(devices), layers_(layers) {
    placement.layers.resize(static_cast<size_t>(layers));
  }

  void give(const Unit& unit, int32_t device, const std::string& name) {
    if (accepts(unit, device, name)) at(unit) = device;
  }

  /// The parts of a layer. If the attention is refused, the whole layer stays: one text says so.
  void give_layer(int32_t layer, int32_t device, bool with_experts) {
    const Unit attention{UnitKind::attention, layer};
    if (!accepts(attention, device, layer_unit_name(attention.kind, layer))) return;
    at(attention) = device;
    for (const UnitKind kind : {UnitKind::feed_forward, UnitKind::experts}) {
      if (kind == UnitKind::experts && !with_experts) continue;
      give({kind, layer}, device, layer_unit_name(kind, layer));
    }
  }

  /// Puts attention that reads another layer's cache where that cache is: on device 0, if the
  /// device of the cache cannot compute all that reads it.
  void join_caches(std::span<const int32_t> cache_of) {
    const auto attention = [&](size_t layer) -> int32_t& {
      return placement.layers[layer].attention;
    };
    for (size_t layer = 0; layer < cache_of.size(); ++layer) {
      const auto owner = static_cast<size_t>(cache_of[layer]);
      const Unit unit{UnitKind::attention, static_cast<int32_t>(layer)};
      if (!accepts(unit, attention(owner), layer_unit_name(unit.kind, unit.layer))) {
        attention(owner) = 0;
      }
    }
    for (size_t layer = 0; layer < cache_of.size(); ++layer) {
      attention(layer) = attention(static_cast<size_t>(cache_of[layer]));
    }
  }

  Placement placement;

 private:
  int32_t& at(const Unit& unit) {
    if (unit.kind == UnitKind::embedding) return placement.embedding;
    if (unit.kind == UnitKind::output) return placement.output;
    LayerPlace& layer = placement.layers[static_cast<size_t>(unit.layer)];
    if (unit.kind == UnitKind::attention) return layer.attention;
    return unit.kind == UnitKind::experts ? layer.experts : layer.feed_forward;
  }

  bool accepts(const Unit& unit, int32_t device, const std::string& name) {
    if (device == 0) return true;
    const auto d = static_cast<size_t>(device);
    const std::string& reason = refused_[d][static_cast<size_t>(unit_number(unit, layers_))];
    if (reason.empty()) return true;
    placement.refused.push_back(fmt::format("{} stays on {}: {} cannot compute {}", name,
                                            devices_[0]->info().name, devices_[d]->info().name,
                                            reason));
    return false;
  }

  const Refusals& refused_;
  std::span<Device* const> devices_;
  int64_t layers_;
};

}  // namespace

int64_t unit_count(int64_t layers) { return layers * kLayerUnits + 2; }

int64_t unit_number(const Unit& unit, int64_t layers) {
  const int64_t first = unit.layer * kLayerUnits;
  switch (unit.kind) {
    case UnitKind::attention: return first;
    case UnitKind::feed_forward: return first + 1;
    case UnitKind::experts: return first + 2;
    case UnitKind::output: return layers * kLayerUnits;
    case UnitKind::embedding: break;
  }
  return layers * kLayerUnits + 1;
}

int32_t LayerPlace::of(UnitKind kind) const {
  if (kind == UnitKind::attention) return attention;
  return kind == UnitKind::experts ? experts : feed_forward;
}

int32_t Placement::of(const Unit& unit) const {
  if (unit.kind == UnitKind::embedding) return embedding;
  if (unit.kind == UnitKind::output) return output;
  return layers.empty() ? 0 : layers[static_cast<size_t>(unit.layer)].of(unit.kind);
}

int32_t Placement::of(const Node& node, Roles roles) const {
  if (roles != Roles::prompt || prompts.empty() || cache_layer(node) >= 0) return of(node.unit);
  if (node.unit.layer < 0) return of(node.unit);
  return prompts[static_cast<size_t>(node.unit.layer)].of(node.unit.kind);
}

int64_t Placement::offloaded() const {
  return std::ranges::count_if(layers, [](const LayerPlace& at) { return at.attention > 0; }) +
         (output > 0 ? 1 : 0);
}

int64_t Placement::host_experts() const {
  return std::ranges::count_if(layers, [](const LayerPlace& at) {
    return at.attention > 0 && at.feed_forward > 0 && at.experts == 0;
  });
}

Refusals refusals(const Graph& graph, int64_t layers, std::span<Device* const> devices,
                  std::span<const Weight> weights) {
  Refusals refused;
  for (const Device* device : devices) {
    std::vector<std::string>& units = refused.emplace_back(unit_count(layers));
    for (const Node& node : graph.nodes()) {
      std::string& reason = units[static_cast<size_t>(unit_number(node.unit, layers))];
      if (reason.empty()) reason = refusal(graph, node, *device, weights);
    }
  }
  return refused;
}

Placement place_units(const PlacementRequest& request, std::span<const int64_t> bytes,
                      std::span<const int64_t> room, const Refusals& refused,
                      std::span<Device* const> devices) {
  const auto layers = (static_cast<int64_t>(bytes.size()) - 2) / kLayerUnits;
  const int64_t parts = layers + 1;  // and the output
  const int64_t first = parts - std::clamp<int64_t>(request.layers, 0, parts);
  const auto keeps_experts = [&](int64_t layer) { return layer < request.host_experts; };
  const auto part_bytes = [&](int64_t part) {
    const auto at = static_cast<size_t>(part * kLayerUnits);
    if (part == layers) return static_cast<double>(bytes[at]);
    return static_cast<double>(bytes[at] + bytes[at + 1] +
                               (keeps_experts(part) ? 0 : bytes[at + 2]));
  };
  double total = 0;
  for (int64_t part = first; part < parts; ++part) total += part_bytes(part);
  const auto room_of = [&](size_t d) { return static_cast<double>(std::max<int64_t>(room[d], 1)); };
  double all = 0;
  for (size_t d = 1; d < room.size(); ++d) all += room_of(d);

  Placer placer(refused, devices, layers);
  if (room.size() > 1) {
    size_t device = 1;
    double given = 0;
    double reach = room_of(1);
    for (int64_t part = first; part < parts; ++part) {
      const double own = part_bytes(part);
      // A part belongs to the device in whose share its middle lies.
      while (device + 1 < room.size() && (given + own / 2) * all > total * reach) {
        reach += room_of(++device);
      }
      given += own;
      const auto to = static_cast<int32_t>(device);
      if (part == layers) {
        placer.give({UnitKind::output, -1}, to, "the output");
      } else {
        placer.give_layer(static_cast<int32_t>(part), to, !keeps_experts(part));
      }
    }
    if (first == 0) {
      const int32_t to = layers > 0 ? placer.placement.layers[0].attention : 1;
      placer.give({UnitKind::embedding, -1}, to, "the embedding");
    }
  }
  if (!request.fixed.empty()) {
    const auto fix = [&](const Unit& unit, const std::string& name) {
      const int32_t device = request.fixed[static_cast<size_t>(unit_number(unit, layers))];
      if (device >= 0) placer.give(unit, device, name);
    };
    for (int32_t layer = 0; layer < layers; ++layer) {
      fix({UnitKind::attention, layer}, fmt::format("the attention of layer {}", layer));
      for (const UnitKind kind : {UnitKind::feed_forward, UnitKind::experts}) {
        fix({kind, layer}, layer_unit_name(kind, layer));
      }
    }
    fix({UnitKind::output, -1}, "the output");
    fix({UnitKind::embedding, -1}, "the embedding");
  }
  placer.join_caches(request.cache_of);
  for (size_t layer = 0; layer < static_cast<size_t>(layers); ++layer) {
    LayerPlace& at = placer.placement.layers[layer];
    if (bytes[layer * kLayerUnits + 2] == 0) at.experts = at.feed_forward;
  }
  return std::move(placer.placement);
}

std::string parts_of(const Placement& placement, int32_t device, int64_t layers) {
  std::string parts;
  const auto add = [&](const std::string& part) { parts += (parts.empty() ? "" : ", ") + part; };
  if (placement.embedding == device) add("embedding");
  const auto place = [&](int64_t layer) {
    return placement.layers.empty() ? LayerPlace() : placement.layers[static_cast<size_t>(layer)];
  };
  // Which units of a layer the device has: a bit for each.
  const auto units = [&](int64_t layer) {
    const LayerPlace at = place(layer);
    return (at.attention == device ? 1 : 0) | (at.feed_forward == device ? 2 : 0) |
           (at.experts == device ? 4 : 0);
  };
  for (int64_t first = 0; first < layers; ++first) {
    const int have = units(first);
    if (have == 0) continue;
    int64_t last = first;
    while (last + 1 < layers && units(last + 1) == have) ++last;
    constexpr const char* kBefore[] = {"",
                                       "attention of ",
                                       "feed-forward of ",
                                       "",
                                       "experts of ",
                                       "attention and experts of ",
                                       "feed-forward of ",
                                       ""};
    add(fmt::format("{}{}{}", kBefore[have],
                    first == last ? fmt::format("layer {}", first)
                                  : fmt::format("layers {} to {}", first, last),
                    have == 2 || have == 3 ? " without experts" : ""));
    first = last;
  }
  if (placement.output == device) add("output");
  return parts;
}

std::string streamed_parts_of(const Placement& placement, int32_t device) {
  Placement only{-1, placement.prompts, -1, {}, {}};
  for (size_t l = 0; l < only.layers.size(); ++l) {
    LayerPlace& at = only.layers[l];
    const LayerPlace& own = placement.layers[l];
    if (at.attention == own.attention) at.attention = -1;
    if (at.feed_forward == own.feed_forward) at.feed_forward = -1;
    if (at.experts == own.experts) at.experts = -1;
  }
  return parts_of(only, device, std::ssize(only.layers));
}

std::vector<PlacedSegment> placed_segments(const Graph& graph, const Placement& placement,
                                           bool each, Roles roles) {
  std::vector<PlacedSegment> placed;
  std::vector<int32_t> maker(graph.values().size(), -1);  // segment, by ValueId
  std::set<std::pair<int32_t, ValueId>> brought;          // to which device
  const Unit* streamed = nullptr;                         // of the present segment
  int32_t waits_for = -1;  // latest segment of another device that the present one waits for
  for (int32_t n = 0; n < static_cast<int32_t>(graph.nodes().size()); ++n) {
    const Node& node = graph.nodes()[static_cast<size_t>(n)];
    const int32_t device = placement.of(node, roles);
    const bool streams = device != placement.of(node.unit);
    int32_t latest = -1;
    for (const ValueId id : node.inputs) {
      if (id == kNoValue) continue;
      const ValueId storage = graph.storage(id);
      const int32_t made = maker[static_cast<size_t>(storage)];
      if (made < 0 || placed[static_cast<size_t>(made)].device == device) continue;
      if (brought.emplace(device, storage).second) latest = std::max(latest, made);
    }
    if (each || placed.empty() || placed.back().device != device || latest > waits_for ||
        (streams && streamed != nullptr && *streamed != node.unit)) {
      placed.push_back({{&graph, n, n, roles}, device});
      waits_for = latest;
      streamed = nullptr;
    }
    if (streams) streamed = &node.unit;
    placed.back().segment.end = n + 1;
    for (const ValueId id : node.outputs) {
      maker[static_cast<size_t>(id)] = static_cast<int32_t>(placed.size()) - 1;
    }
  }
  return placed;
}

}  // namespace infer
