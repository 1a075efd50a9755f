#include "backends/vulkan/tuning.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "backends/vulkan/pipelines.h"

namespace infer::vulkan {
bool Tuning::can_use_matrices(const PhysicalDevice& device) const {
  const std::string shaders = "matrix_" + device.matrices.name();
  const bool built = std::ranges::any_of(all_shaders(), [&](const Shader& shader) {
    return std::string_view(shader.name).starts_with(shaders);
  });
  if (!device.matrices.given() || !built) return false;
  const uint32_t lanes = matrix_lanes(device);
  const uint32_t share = matrix_share(device);
  // weights/matrix.comp: rows and columns of two steps, and a little. One step's memory also holds
  // a matrix of results of each subgroup.
  constexpr uint32_t kRowBytes = 80;
  const uint32_t step = 2 * matrix_tile * kRowBytes;
  const uint32_t results =
      lanes / device.subgroup * device.matrices.m * device.matrices.n * uint32_t{sizeof(float)};
  const uint32_t shared = 2 * step + 8 * matrix_tile + 256;
  return (share == 1 || share == 2 || share == 4) && lanes == share * matrix_tile &&
         results <= step && matrix_own_rows % device.matrices.m == 0 &&
         matrix_own_columns % device.matrices.n == 0 &&
         lanes <= device.limits.maxComputeWorkGroupInvocations &&
         lanes <= device.limits.maxComputeWorkGroupSize[0] &&
         shared <= device.limits.maxComputeSharedMemorySize;
}

Tuning Tuning::of(const PhysicalDevice& device) {
  Tuning tuning;
  tuning.integer = device.fast_integer_dots;
  // What a device need not have: 8 of its subgroups in a workgroup, shared memory of a tile.
  constexpr uint32_t kTileShared = 20 << 10;
  constexpr uint32_t kAttentionShared = 22 << 10;
  constexpr uint32_t kAttentionLanes = 256;
  const uint32_t lanes = device.limits.maxComputeWorkGroupInvocations;
  tuning.parts = std::clamp(lanes / device.subgroup, 1u, tuning.parts);
  tuning.row_lanes = std::min(tuning.row_lanes, lanes);
  tuning.tile = device.limits.maxComputeSharedMemorySize >= kTileShared;
  tuning.matrices = true;
  tuning.matrix_tile = 128;
  tuning.matrix_own_columns = 64;
  if (!tuning.can_use_matrices(device)) {
    tuning.matrix_tile = 64;
    tuning.matrix_own_columns = 32;
    tuning.matrices = tuning.can_use_matrices(device);
  }
  if (device.limits.maxComputeSharedMemorySize < kAttentionShared || lanes < kAttentionLanes) {
    tuning.tile_queries = 0;
  }
  if (device.processor) {  // computes no more workgroups at once than it has cores
    tuning.parts = 1;
    tuning.tall = 8;
    tuning.handed = true;
    tuning.split_rows = 0;
    tuning.tile = false;
    tuning.near_largest = false;  // its memory is as near to the host
    tuning.matrices = false;      // it has no instruction for them
    tuning.matrix_tile = 32;
    tuning.matrix_own_rows = tuning.matrix_own_columns = 16;
    tuning.handed_keys = device.subgroup >= 4 && device.subgroup <= 16;
    tuning.tile_queries = tuning.handed_keys ? device.subgroup : 0;
    tuning.groups = 64;
    tuning.normed_groups = 16;
    tuning.row_lanes = device.subgroup;
  }
  return tuning;
}

}  // namespace infer::vulkan
