// How shaders use a device. Each kind of device has suitable values. Tests open devices with other
// values (VulkanOptions), so that every path runs on the devices at hand. The values change the
// speed; `parts` also changes the order of sums, `integer` and `matrices` their precision. No value
// makes the results of a row depend on its batch or chunk.
#pragma once

#include <cstdint>

#include "backends/vulkan/instance.h"

namespace infer::vulkan {

/// Results that a workgroup computes by cooperative matrices, and each of its subgroups.
struct MatrixTile {
  uint32_t rows, columns;
  uint32_t own_rows, own_columns;

  uint32_t lanes(uint32_t subgroup) const {
    return subgroup * (rows / own_rows) * (columns / own_columns);
  }
  /// Lanes that share a piece of a row; 0: there are fewer lanes than rows.
  uint32_t share(uint32_t subgroup) const { return lanes(subgroup) / rows; }
  /// Whether the device can run such workgroups.
  bool suits(const PhysicalDevice& device) const;
};

/// Those that may be measured, a device's usual one first.
inline constexpr MatrixTile kMatrixTiles[] = {{128, 128, 32, 64}, {128, 128, 64, 64},
                                              {128, 64, 32, 32},  {64, 128, 32, 64},
                                              {64, 64, 32, 32},   {64, 64, 16, 32}};

struct Tuning {
  uint32_t parts = 16;  ///< subgroups of a product's workgroup, each with a part of K
  uint32_t tall = 1;    ///< rows of weights that a lane computes
  /// True: the lanes of a subgroup load activations together and pass them on. False: every lane
  /// loads all of them, which is fast if one instruction serves the whole subgroup.
  bool handed = false;
  int64_t groups = 65535;        ///< most workgroups of a product
  int64_t normed_groups = 1024;  ///< the same, if each workgroup normalises the activations first
  uint32_t row_lanes = 256;      ///< invocations that share a row of a norm
  uint32_t merge_lanes = 256;    ///< invocations that merge lists of chosen slots
  /// In steps of at most this many rows, several workgroups share the keys of a row. More rows have
  /// workgroups enough without.
  int64_t split_rows = 32;
  /// In larger steps, this many queries (heads of rows) share keys and values; 0: none share.
  uint32_t tile_queries = 32;
  /// True: the sharing queries are one subgroup of 4, 8 or 16 lanes. False: they share through
  /// shared memory.
  bool handed_keys = false;
  int64_t columns = 8;  ///< most columns of a product that share decoded weights
  /// Above this many rows, products with experts group their columns by expert.
  int64_t single_rows = 16;
  /// Above this many columns, products use tiles in shared memory (if `tile`).
  int64_t vector_columns = 16;
  bool tile = true;
  /// About so much work makes a submission: multiply-accumulates, and ten for a byte of weights.
  /// Slow devices take some tenths of a second for it; watchdogs of drivers give two seconds.
  double submission = 1e11;
  /// Each step counts as one of so many tokens of context at least.
  int64_t least_context = 16384;
  bool near_largest = true;  ///< the device finds the logits that matter (Device::near_largest)
  bool fuse = true;
  bool integer = false;  ///< activations are rounded to bytes if the type has such a shader
  /// Tokens of prompts have a numeric class of their own (Roles): their products use cooperative
  /// matrices of float16.
  bool matrices = false;
  /// A lane has registers for its part of 16 queries of 128 elements beside the results.
  bool holds_queries = false;
  MatrixTile matrix_tile{64, 64, 32, 32};
  MatrixTile narrow_tile{32, 32, 16, 16};  ///< for no more columns than it has

  bool tiles(int64_t columns) const { return tile && columns > vector_columns; }
  bool splits(int64_t rows) const { return rows <= split_rows; }

  const MatrixTile& tile_of(int64_t columns) const {
    return columns <= int64_t{narrow_tile.columns} ? narrow_tile : matrix_tile;
  }
  /// True if the device has cooperative matrices and can run both tiles.
  bool can_use_matrices(const PhysicalDevice& device) const;

  /// The values that suit a device.
  static Tuning of(const PhysicalDevice& device);
};

}  // namespace infer::vulkan
