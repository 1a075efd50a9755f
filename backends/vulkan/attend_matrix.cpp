#include "backends/vulkan/attend_matrix.h"

#include <algorithm>

namespace infer::vulkan {
namespace {

/// The shared memory that the shader declares, in bytes.
int64_t shared_bytes(const AttendTile& tile, const MatrixShape& shape, int64_t k_dim, int64_t v_dim,
                     bool across) {
  const int64_t tokens = tile.tokens;
  const int64_t queries = (k_dim / 8 + 1) * tile.queries;
  const int64_t keys = across ? (tokens / 8 + 1) * k_dim : (k_dim / 8 + 1) * tokens;
  const int64_t values = (v_dim / 8 + 1) * tokens;
  const int64_t pieces = std::max({keys, values, tile.held ? queries : 0});
  const int64_t scores = (tokens / 4 + 1) * tile.queries;
  const int64_t factors = int64_t{shape.n / 4} * tile.queries;
  const int64_t results = (std::min<int64_t>(v_dim, 128) / 4 + 1) * tile.queries;
  return 16 * std::max(pieces + (tile.held ? 0 : queries) + scores + factors, results);
}

}  // namespace

std::optional<AttendTile> attend_tile(const PhysicalDevice& device, const Tuning& tuning,
                                      int64_t k_dim, int64_t v_dim, bool across) {
  constexpr int64_t kMostDim = 256;  // a subgroup has no registers for more
  const MatrixShape& shape = device.matrices;
  const int64_t most = std::max(k_dim, v_dim);
  if (!shape.given() || device.subgroup < shape.m) return std::nullopt;
  if (k_dim % 16 != 0 || v_dim % 16 != 0 || most > kMostDim) return std::nullopt;
  AttendTile tile{4, 64, true, 0, 0};
  if (most > 128) {
    tile = {2, tuning.holds_queries ? 32u : 16u, false, 0, 0};
  } else if (most > 64 && !tuning.holds_queries) {
    tile = {4, 32, false, 0, 0};
  }
  tile.queries = tile.subgroups * shape.m;
  tile.workgroup = tile.subgroups * device.subgroup;
  const VkPhysicalDeviceLimits& limits = device.limits;
  const int64_t shared = shared_bytes(tile, shape, k_dim, v_dim, across);
  if (shared > limits.maxComputeSharedMemorySize ||
      tile.workgroup > limits.maxComputeWorkGroupInvocations ||
      tile.workgroup > limits.maxComputeWorkGroupSize[0]) {
    return std::nullopt;
  }
  return tile;
}

}  // namespace infer::vulkan
