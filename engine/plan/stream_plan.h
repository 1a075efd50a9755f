// Weights of the host's parts that another device gets for each step of prompts. A token needs all
// weights of a part once, which the host's memory brings sooner than a bus does. A prompt of many
// tokens needs them once as well, and the device computes it so much faster that bringing them
// pays.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/backend/device.h"
#include "engine/plan/placement.h"
#include "engine/weights/weight_source.h"

namespace infer {

/// What a device gets for its segments, in their order. Those of one step take turns in the places
/// of WeightStream.
struct StreamPlan {
  /// A weight, and its place from the begin of a WeightStream's place.
  struct Load {
    ValueId value = kNoValue;  ///< of the weight
    int64_t offset = 0;
  };
  std::vector<StreamedWeight> weights;  ///< all, without data
  std::vector<bool> streamed;           ///< by index of the source's weights, up to the last one
  int64_t place_bytes = 0;              ///< of one place
  int64_t work_bytes = 0;               ///< Device::stream_bytes()

  /// Of the device's memory: the places, and work space behind them.
  int64_t bytes() const { return WeightStream::kPlaces * place_bytes + work_bytes; }
  /// The weights that a segment needs, in its order.
  std::vector<Load> loads(const Segment& segment, const Device& device) const;
};

/// Chooses who computes the layers for tokens of prompts (Placement::prompts): a part of the host's
/// is computed by the device of its layer's attention, or by device 1, if that can compute it and
/// get its matrices. Leaves the placement as it is if there is no such part. Returns a plan for
/// each device.
std::vector<StreamPlan> plan_streams(const Graph& graph, std::span<Device* const> devices,
                                     const Refusals& refused, Placement& placement);

/// Tokens from which on it pays to compute a prompt so: with experts more, since only some compute
/// a token but all have to be brought.
int64_t least_streamed_tokens(const Graph& graph, const Placement& placement);

}  // namespace infer
