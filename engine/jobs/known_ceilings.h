// The measured limits of this machine's devices, kept in a file so that planning need not measure
// again.
#pragma once

#include <optional>
#include <string>

#include "engine/backend/device.h"

namespace infer {

/// The file in the user's cache folder; empty if there is no such folder.
std::string ceilings_file();

/// What the limits depend on: the device, its driver, the kernels and the threads. `exact`:
/// DeviceOptions::exact.
std::string ceilings_key(const DeviceInfo& device, bool exact);

/// The limits that the file has for a key. Nothing if it has none that make sense.
std::optional<Ceilings> known_ceilings(const std::string& file, const std::string& key);

/// Puts them into the file, in place of older ones for the key. Errors: io.
Status keep_ceilings(const std::string& file, const std::string& key, const Ceilings& ceilings);

}  // namespace infer
