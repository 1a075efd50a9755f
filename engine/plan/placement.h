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

/// Devices by their number. Where there are several, 0 is the host's processor and those after it
/// are what layers are given to.
struct Placement {
  int32_t embedding = 0;
  std::vector<int32_t> layers;  ///< by layer; none: all on device 0
  int32_t output = 0;
  /// What was meant for another device and is on device 0, with the reason.
  std::vector<std::string> refused;

  int32_t of(const Unit& unit) const;
  /// Layers that are not on device 0, and the output counted as one more.
  int64_t offloaded() const;
};

/// What each device cannot compute: by device, then by layer, the output and last the embedding,
/// the reason; empty where it can.
std::vector<std::vector<std::string>> refusals(const Graph& graph, int64_t layers,
                                               std::span<Device* const> devices,
                                               std::span<const Weight> weights);

/// Gives the last `count` of layers and output to the devices after the first, in their order, to
/// each a stretch in proportion to its `room` (by device; that of device 0 does not count).
/// `bytes`: of each layer and of the output. Where all are given away the embedding goes with the
/// first. What a device refuses stays on device 0.
Placement place_last(int64_t count, std::span<const int64_t> bytes, std::span<const int64_t> room,
                     const std::vector<std::vector<std::string>>& refused,
                     std::span<Device* const> devices);

/// A stretch of nodes on one device.
struct PlacedSegment {
  Segment segment;
  int32_t device = 0;
};
/// The graph's nodes in their order, in as few stretches as can be; one for each node if `each`.
/// `roles`: of the tokens that they are for.
std::vector<PlacedSegment> placed_segments(const Graph& graph, const Placement& placement,
                                           bool each, Roles roles = Roles::generated);

}  // namespace infer
