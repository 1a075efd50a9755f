// Devices that are not present, for planning: a back end answers as it would for the device itself.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/backend/device.h"

namespace infer {

struct AbsentDevice {
  std::string name;
  int64_t memory = 0;     ///< bytes
  bool matrices = false;  ///< it has matrix units for float16, which compute prompts
  bool exact = false;     ///< DeviceOptions::exact
};

/// A back end that can plan for devices that are not present.
struct AbsentDef {
  const char* name;
  /// A device that answers all const queries. Everything else fails with unsupported.
  std::unique_ptr<Device> (*make)(const AbsentDevice& device);
};

/// Generated from the back ends that have a file <name>_absent.cpp.
std::span<const AbsentDef* const> all_absent();

}  // namespace infer
