#include "backends/vulkan/tuning.h"

#include <algorithm>
#include <mutex>

namespace infer::vulkan {
namespace {

struct Forced {
  std::mutex mutex;
  std::optional<Tuning> tuning;
};

Forced& forced() {
  static Forced state;
  return state;
}

}  // namespace

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
  if (device.limits.maxComputeSharedMemorySize < kAttentionShared || lanes < kAttentionLanes) {
    tuning.tile_queries = 0;
  }
  if (device.processor) {  // computes no more workgroups at once than it has cores
    tuning.parts = 1;
    tuning.tall = 8;
    tuning.handed = true;
    tuning.split_rows = 0;
    tuning.tile = false;
    tuning.handed_keys = device.subgroup >= 4 && device.subgroup <= 16;
    tuning.tile_queries = tuning.handed_keys ? device.subgroup : 0;
    tuning.groups = 64;
    tuning.normed_groups = 16;
    tuning.row_lanes = device.subgroup;
  }
  return tuning;
}

void force_tuning(std::optional<Tuning> tuning) {
  const std::lock_guard lock(forced().mutex);
  forced().tuning = tuning;
}

std::optional<Tuning> forced_tuning() {
  const std::lock_guard lock(forced().mutex);
  return forced().tuning;
}

}  // namespace infer::vulkan
