// Where each device's weights lie.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/device.h"
#include "engine/plan/placement.h"
#include "engine/weights/weight_source.h"

namespace infer {

/// Where a weight lies: in which of the weights' buffers, −1 if the device does not use it.
struct WeightPlace {
  int32_t buffer = -1;
  int64_t offset = 0;
};

/// Weights of one device, packed one after another; and as they lie in the file: all of them, and
/// the most that two layers in a row use.
struct WeightsPlan {
  std::vector<WeightPlace> places;  ///< by index of the source's weights
  std::vector<int64_t> buffers;     ///< bytes of each
  int64_t packed = 0;
  int64_t mapped = 0;
  int64_t window = 0;
};

/// The weights that the nodes of one device read. does_not_fit, with its name, for a tensor that is
/// larger than a buffer of the device may be.
Result<WeightsPlan> place_weights(std::span<const PlacedSegment> segments, int32_t number,
                                  const Device& device, std::span<const Weight> weights);

}  // namespace infer
