#include "backends/vulkan/tuning.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "backends/vulkan/pipelines.h"

namespace infer::vulkan {
bool MatrixTile::suits(const PhysicalDevice& device) const {
  const MatrixShape& shape = device.matrices;
  if (!shape.given() || own_rows % shape.m != 0 || own_columns % shape.n != 0) return false;
  const uint32_t all = lanes(device.subgroup);
  const uint32_t shared_by = share(device.subgroup);
  // weights/matrix.comp: rows and columns of two steps, and a little. In their place are then
  // results of a matrix's width of each subgroup.
  constexpr uint32_t kRowBytes = 80;
  const uint32_t steps = 2 * (rows + columns) * kRowBytes;
  const uint32_t results =
      all / device.subgroup * own_rows * shape.n * static_cast<uint32_t>(sizeof(float));
  const uint32_t shared = steps + 4 * rows + 256;
  return (shared_by == 1 || shared_by == 2 || shared_by == 4) && all == shared_by * rows &&
         columns * 4 % all == 0 && results <= steps &&
         all <= device.limits.maxComputeWorkGroupInvocations &&
         all <= device.limits.maxComputeWorkGroupSize[0] &&
         shared <= device.limits.maxComputeSharedMemorySize;
}

bool Tuning::can_use_matrices(const PhysicalDevice& device) const {
  const std::string shaders = "matrix_" + device.matrices.name();
  const bool built = std::ranges::any_of(all_shaders(), [&](const Shader& shader) {
    return std::string_view(shader.name).starts_with(shaders);
  });
  return device.matrices.given() && built && matrix_tile.suits(device) && narrow_tile.suits(device);
}

Tuning Tuning::of(const PhysicalDevice& device) {
  Tuning tuning;
  tuning.integer = device.fast_integer_dots;
  // What a device need not have: so many lanes in a workgroup, shared memory of a tile.
  constexpr uint32_t kTileShared = 20 << 10;
  constexpr uint32_t kAttentionShared = 22 << 10;
  constexpr uint32_t kAttentionLanes = 256;
  const uint32_t lanes = device.limits.maxComputeWorkGroupInvocations;
  constexpr uint32_t kProductLanes = 512;  // with more a lane would have few registers
  tuning.parts = std::clamp(std::min(lanes, kProductLanes) / device.subgroup, 1u, tuning.parts);
  tuning.row_lanes = std::min(tuning.row_lanes, lanes);
  constexpr uint32_t kMostMergeLanes = 1024;
  constexpr uint32_t kSubgroups = 32;  // of a workgroup; devices that were met can have these
  tuning.merge_lanes = std::min({kMostMergeLanes, lanes, device.subgroup * kSubgroups});
  tuning.tile = device.limits.maxComputeSharedMemorySize >= kTileShared;
  const auto suits = [&](const MatrixTile& tile) { return tile.suits(device); };
  const auto* const found = std::ranges::find_if(kMatrixTiles, suits);
  if (found != std::end(kMatrixTiles)) tuning.matrix_tile = *found;
  tuning.narrow_tile = {64, 32, 32, 16};
  if (!suits(tuning.narrow_tile)) tuning.narrow_tile = {64, 64, 32, 32};
  tuning.matrices = tuning.can_use_matrices(device);
  constexpr uint32_t kNvidia = 0x10de;  // whose factors are not repeated in several lanes
  tuning.holds_queries = device.driver.vendor == kNvidia;
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
    tuning.matrix_tile = {32, 64, 16, 32};
    tuning.narrow_tile = {32, 32, 16, 16};
    tuning.handed_keys = device.subgroup >= 4 && device.subgroup <= 16;
    tuning.tile_queries = tuning.handed_keys ? device.subgroup : 0;
    tuning.groups = 64;
    tuning.normed_groups = 16;
    tuning.row_lanes = device.subgroup;
  }
  return tuning;
}

}  // namespace infer::vulkan
