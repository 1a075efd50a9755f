// Saves the code that a driver has compiled in the user's cache folder: one file for each device
// and version of its driver.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backends/vulkan/instance.h"

namespace infer::vulkan {

/// The path of the file, in $XDG_CACHE_HOME/infer or ~/.cache/infer. Empty if the user has no such
/// folder.
std::string pipeline_file(const PhysicalDevice& device);

/// The data that write_pipelines() saved for this device and driver. Nothing if there is no file,
/// or if it is damaged or of another device. Also nothing, with a line in the log, if a user other
/// than this one and root could have written the file.
std::vector<std::byte> read_pipelines(const PhysicalDevice& device);

/// Writes the file completely or not at all. Makes the folder if necessary.
Status write_pipelines(const PhysicalDevice& device, std::span<const std::byte> data);

}  // namespace infer::vulkan
