// What the GPUs of this machine do, by where they are on the bus.
#pragma once

#include <optional>
#include <string>

#include "infer/telemetry.hpp"

namespace infer {

/// What the GPU at this place ("0000:01:00.0") does, at most a second old; nothing if `pci` is
/// empty or none tells. Any thread.
std::optional<GpuTelemetry> telemetry_at(const std::string& pci);

/// For tests: what telemetry_at() reads from the next call on.
void use_telemetry(const TelemetryOptions& options);

}  // namespace infer
