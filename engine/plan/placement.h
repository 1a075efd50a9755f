// Which device computes which part of a model. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/backend/device.h"
#include "engine/graph/graph.h"
#include "engine/weights/weight_source.h"

namespace infer {

/// The device of each unit, by number. If there are several devices, number 0 is the host's
/// processor.
struct Placement {
  int32_t embedding = 0;
  std::vector<int32_t> layers;  ///< by layer; empty: all on device 0
  int32_t output = 0;
  /// One line for each unit that stays on device 0 because the other device refuses it.
  std::vector<std::string> refused;

  int32_t of(const Unit& unit) const;
  /// Number of layers that are not on device 0. The output counts as one more.
  int64_t offloaded() const;
};

/// Why a device cannot compute a unit: [device][unit], empty if it can. The units are the layers,
/// then the output, then the embedding.
std::vector<std::vector<std::string>> refusals(const Graph& graph, int64_t layers,
                                               std::span<Device* const> devices,
                                               std::span<const Weight> weights);

/// Places the last `count` units (layers, then the output) on the devices after the first. Each
/// device gets consecutive units, in proportion to its `room` (bytes, by device; that of device 0
/// is ignored). `bytes`: of each layer and of the output. If all units are placed there, the
/// embedding goes with the first layer. A unit that its device refuses stays on device 0.
Placement place_last(int64_t count, std::span<const int64_t> bytes, std::span<const int64_t> room,
                     const std::vector<std::vector<std::string>>& refused,
                     std::span<Device* const> devices);

/// Consecutive nodes on one device.
struct PlacedSegment {
  Segment segment;
  int32_t device = 0;
};
/// Divides the graph's nodes, in order, into as few segments as possible; into one for each node if
/// `each`. `roles`: the roles of all segments.
std::vector<PlacedSegment> placed_segments(const Graph& graph, const Placement& placement,
                                           bool each, Roles roles = Roles::generated);

}  // namespace infer
