// Attention of tiles of queries by cooperative matrices, for the tokens of prompts
// (glsl/attend_matrix.glsl).
#pragma once

#include <cstdint>
#include <optional>

#include "backends/vulkan/tuning.h"

namespace infer::vulkan {

/// The workgroup that computes a tile.
struct AttendTile {
  uint32_t subgroups;
  uint32_t tokens;  ///< of keys that are visited together
  bool held;        ///< queries are in registers, else in shared memory
  uint32_t queries;
  uint32_t workgroup;  ///< invocations
};

/// The tile for keys and values of so many elements; nothing if the device cannot compute such
/// tiles. `across`: keys are [element][token].
std::optional<AttendTile> attend_tile(const PhysicalDevice& device, const Tuning& tuning,
                                      int64_t k_dim, int64_t v_dim, bool across);

}  // namespace infer::vulkan
