// Which device computes which part of a model. Pure functions.
//
// Devices are numbers. If there are several, device 0 is the host's processor.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/device.h"
#include "engine/graph/graph.h"
#include "engine/weights/weight_source.h"

namespace infer {

/// The devices of one layer's units.
struct LayerPlace {
  int32_t attention = 0;            ///< the layer's cache is there too
  int32_t feed_forward = 0;         ///< of a layer with experts: norms, router and shared expert
  int32_t experts = 0;              ///< of a layer without experts: the same as feed_forward
  int32_t of(UnitKind kind) const;  ///< a kind that layers have
  bool operator==(const LayerPlace&) const = default;
};

struct Placement {
  int32_t embedding = 0;
  std::vector<LayerPlace> layers;  ///< empty: all are on device 0
  int32_t output = 0;
  /// Who computes the layers for tokens of prompts, where other devices than their own get their
  /// weights for each step (stream_plan.h). Empty: the same.
  std::vector<LayerPlace> prompts;
  /// One text for each part that another device was to compute and cannot: device 0 does. With the
  /// reason.
  std::vector<std::string> refused;

  int32_t of(const Unit& unit) const;
  /// In a step of tokens of these roles. What reads or writes a cache is where that is.
  int32_t of(const Node& node, Roles roles) const;
  /// Layers whose attention is not on device 0. The output counts as one more layer.
  int64_t offloaded() const;
  /// Layers whose attention is not on device 0, but whose experts are.
  int64_t host_experts() const;
};

/// Units have numbers: attention, feed-forward and experts of layer 0, those of layer 1, and so on,
/// then the output and the embedding.
int64_t unit_count(int64_t layers);
int64_t unit_number(const Unit& unit, int64_t layers);

/// By device and unit: why the device cannot compute the unit. Empty if it can.
using Refusals = std::vector<std::vector<std::string>>;
Refusals refusals(const Graph& graph, int64_t layers, std::span<Device* const> devices,
                  std::span<const Weight> weights);

struct PlacementRequest {
  /// Number of layers that the devices after the first get: the last ones. The output counts as one
  /// more layer. With all layers they get the embedding too.
  int64_t layers = 0;
  int64_t host_experts = 0;  ///< in the first so many layers the experts stay on device 0
  /// By unit: its device, whatever the numbers above say; −1: as they say. Empty: none.
  std::vector<int32_t> fixed;
  /// By layer: the layer whose cache its attention reads. Empty: each has its own.
  std::vector<int32_t> cache_of = {};
};

/// Places all units. The devices after the first share the layers in order: each gets a stretch in
/// proportion to its `room` (by device; that of device 0 does not count). `bytes`: of each unit's
/// weights, by unit. A unit that its device refuses stays on device 0. Attention that reads the
/// cache of another layer is where that layer's attention is.
Placement place_units(const PlacementRequest& request, std::span<const int64_t> bytes,
                      std::span<const int64_t> room, const Refusals& refused,
                      std::span<Device* const> devices);

/// What a device computes, for a reader: "layers 0 to 11 without experts, output".
std::string parts_of(const Placement& placement, int32_t device, int64_t layers);
/// The same of what it computes for prompts alone.
std::string streamed_parts_of(const Placement& placement, int32_t device);

/// Consecutive nodes on one device.
struct PlacedSegment {
  Segment segment;
  int32_t device = 0;
};
/// Divides the graph's nodes, in order, into segments: one for each node if `each`, otherwise as
/// few as possible. But no node waits for a value of another device that only a later node of its
/// segment needs: a segment ends before a node that needs a later result of another device than
/// those before it. Nor has a segment two units whose weights its device gets for each step.
/// `roles`: the roles of all segments.
std::vector<PlacedSegment> placed_segments(const Graph& graph, const Placement& placement,
                                           bool each, Roles roles = Roles::generated);

}  // namespace infer
