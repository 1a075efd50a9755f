// The devices of this machine, for tests that run on every one.
#pragma once

#include <string>
#include <vector>

#include "engine/backend/device.h"
#include "tests/support.h"

namespace infer::test {

/// Those of a back end that can be used; a SKIPPED line where there is none, and for each that
/// cannot.
inline std::vector<DeviceInfo> usable_devices(const BackendDef& backend) {
  std::vector<DeviceInfo> usable;
  for (DeviceInfo& info : backend.list()) {
    if (info.usable.ok()) {
      usable.push_back(std::move(info));
    } else {
      skipped(info.usable.message());
    }
  }
  if (usable.empty()) skipped(std::string(backend.name) + ": no such device here");
  return usable;
}

/// Names of those besides the CPU.
inline std::vector<std::string> other_devices() {
  std::vector<std::string> names;
  for (const BackendDef* backend : all_backends()) {
    if (std::string(backend->name) == "cpu") continue;
    for (const DeviceInfo& info : usable_devices(*backend)) names.push_back(info.name);
  }
  return names;
}

}  // namespace infer::test
