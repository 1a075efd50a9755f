// What a driver has compiled, kept between runs in the user's cache folder: one file for a device
// and a version of its driver.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backends/vulkan/instance.h"

namespace infer::vulkan {

/// $XDG_CACHE_HOME/infer, or ~/.cache/infer, and the file's name in it; empty where the user has no
/// such folder.
std::string pipeline_file(const PhysicalDevice& device);

/// What write_pipelines has put into the file of this device and driver; nothing where there is no
/// file, or another's, or a damaged one. Nothing either, with a line in the log, where others than
/// the user and root could have written it.
std::vector<std::byte> read_pipelines(const PhysicalDevice& device);

/// As a whole or not at all, with the folder if need be.
Status write_pipelines(const PhysicalDevice& device, std::span<const std::byte> data);

}  // namespace infer::vulkan
