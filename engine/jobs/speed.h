// The expected speed of a planned model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/session/opened_model.h"
#include "infer/jobs.hpp"

namespace infer {

/// Why no measurement says what fraction of its limits a device reaches; empty: some do. Of GPUs
/// one has been measured.
std::string never_measured(const DeviceInfo& device);

/// What one device does.
struct DeviceWork {
  double first_bytes = 0;   ///< weights and cache read for a generated token, empty context
  double full_bytes = 0;    ///< the same at the end of a full context
  double weight_bytes = 0;  ///< the part of both that is weights
  double prompt_bytes = 0;  ///< read for the whole prompt
  double prompt_macs = 0;   ///< multiply-accumulates with weights for the whole prompt
  /// Of prompt_macs, those with weights that are not quantised, and those with quantised types
  /// whose speed nobody has measured.
  double float_macs = 0;
  double unmeasured_macs = 0;
};

/// The work of each device, from the graphs of a step of one token and of a prompt of `prompt`
/// tokens. Errors: those of build_graph().
Result<std::vector<DeviceWork>> device_work(const OpenedModel& opened, int64_t prompt);

/// A device's work beside its limits.
struct DeviceLoad {
  DeviceInfo info;
  DeviceSpeed speed;
  DeviceWork work;
};

/// The estimate of devices that compute one after another: their times add up. Devices without work
/// do not count.
SpeedEstimate estimate_speed(std::span<const DeviceLoad> devices, int64_t prompt);

}  // namespace infer
