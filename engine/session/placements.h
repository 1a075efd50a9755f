// Where weights go by their names: LoadOptions::placements.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/backend/device.h"
#include "engine/weights/weight_source.h"
#include "infer/infer.hpp"

namespace infer {

/// PlanRequest::weight_devices. `devices`: those that were opened. invalid_argument for a pattern
/// that is none or that no weight's name matches, and for a device that is not among them.
Result<std::vector<int32_t>> weight_devices(std::span<const TensorPlacement> placements,
                                            std::span<const Weight> weights,
                                            std::span<const std::unique_ptr<Device>> devices);

}  // namespace infer
