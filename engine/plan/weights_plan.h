// Places the weights of each device in its buffers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/device.h"
#include "engine/plan/placement.h"
#include "engine/weights/weight_source.h"

namespace infer {

/// The place of a weight on a device.
struct WeightPlace {
  int32_t buffer = -1;  ///< index of the buffer; −1: it is in none
  int64_t offset = 0;   ///< bytes
  bool mapped = false;  ///< it stays in the mapped file

  bool used() const { return buffer >= 0 || mapped; }
};

/// The weights of one device.
struct WeightsPlan {
  std::vector<WeightPlace> places;  ///< by index of the source's weights
  std::vector<int64_t> buffers;     ///< bytes of each buffer
  int64_t packed = 0;               ///< bytes in the buffers, in the device's layout
  int64_t mapped = 0;               ///< bytes that stay in the mapped file
  int64_t window = 0;               ///< of these, those of the largest two consecutive layers
};

/// Places the weights that the nodes of device `number` read, but those that have a place in
/// `lent` or are `streamed`. Those that are `mapped` stay in the file. All are by index of the
/// weights, and may end before the last one.
/// Errors: does_not_fit, with the name of the tensor, if one is larger than the device's largest
/// buffer.
Result<WeightsPlan> place_weights(std::span<const PlacedSegment> segments, int32_t number,
                                  const Device& device, std::span<const Weight> weights,
                                  std::span<const WeightPlace> lent = {},
                                  const std::vector<bool>& streamed = {},
                                  const std::vector<bool>& mapped = {});

}  // namespace infer
