// Files about a device in the user's cache folder, one of each kind for a device and a version of
// its driver: the code that the driver has compiled, and what measurements of the device have
// found.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backends/vulkan/instance.h"

namespace infer::vulkan {

enum class Kept : uint8_t { pipelines, tuning };

/// The path of the file, in $XDG_CACHE_HOME/infer or ~/.cache/infer. Empty if the user has no such
/// folder.
std::string kept_file(const PhysicalDevice& device, Kept what);

/// The data that write_kept() saved for this device and driver. Nothing if there is no file,
/// or if it is damaged or of another device. Also nothing, with a line in the log, if a user other
/// than this one and root could have written the file.
std::vector<std::byte> read_kept(const PhysicalDevice& device, Kept what);

/// Writes the file completely or not at all. Makes the folder if necessary.
Status write_kept(const PhysicalDevice& device, Kept what, std::span<const std::byte> data);

}  // namespace infer::vulkan
