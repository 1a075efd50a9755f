// Devices by their public specifications.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "engine/core/status.h"
#include "infer/jobs.hpp"

namespace infer {

/// All of gpus.def.
std::span<const DeviceSpecification> known_devices();

/// A device by its name in gpus.def, without regard to case, blanks and the words of makers; or
/// "24G,1008GB/s[,330TFLOPS]": memory, bandwidth and float16 products. Errors: invalid_argument for
/// numbers that are none or out of range; device, with the nearest names, for an unknown name.
Result<DeviceSpecification> find_device(std::string_view text);

}  // namespace infer
