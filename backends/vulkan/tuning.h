// How shaders use a device. A device gets what suits its kind; tests open devices with other values
// (VulkanOptions), so that every path is executed on whatever is at hand. Which one is taken
// changes speed, and with `parts` and `integer` the order or the precision of sums; never what a
// batch or a chunk does to a row.
#pragma once

#include <cstdint>

#include "backends/vulkan/instance.h"

namespace infer::vulkan {

struct Tuning {
  uint32_t parts = 8;  ///< subgroups of a product's workgroup, each with a stretch of K
  uint32_t tall = 1;   ///< rows of a lane
  /// Activations are loaded by the lanes of a subgroup together and handed round; else every lane
  /// loads all of them, which caches answer at once where a subgroup is one instruction.
  bool handed = false;
  int64_t groups = 65535;        ///< of a product, at most
  int64_t normed_groups = 1024;  ///< likewise where each of them normalises the activations first
  uint32_t row_lanes = 256;      ///< invocations that share a row of a norm
  /// Steps of so few rows share out a row's keys among workgroups.
  int64_t split_rows = 16;
  /// Queries (heads of rows) that share keys and values where rows are more than that; 0: none do.
  uint32_t tile_queries = 32;
  /// They do so as a subgroup, which has as many lanes (4, 8 or 16), else through shared memory.
  bool handed_keys = false;
  int64_t columns = 8;  ///< that share decoded weights in a product, at most
  /// Products with experts group the places of more rows by expert.
  int64_t single_rows = 16;
  /// Products of more columns go through tiles in shared memory.
  int64_t vector_columns = 16;
  bool tile = true;
  bool fuse = true;
  bool integer = false;  ///< activations are rounded to bytes where a type's shader knows how
  /// Tokens of prompts are a class of their own (Roles): their products go through cooperative
  /// matrices of float16, of which a workgroup computes a square of results and each of its
  /// subgroups a part. Rows of the square change bits where weights exceed float16.
  bool matrices = false;
  uint32_t matrix_tile = 64;
  uint32_t matrix_own_rows = 32;
  uint32_t matrix_own_columns = 32;

  bool tiles(int64_t columns) const { return tile && columns > vector_columns; }
  bool splits(int64_t rows) const { return rows <= split_rows; }

  /// Lanes of a workgroup of matrices, and their pieces of 32 along K: each lane decodes one.
  uint32_t matrix_lanes(const PhysicalDevice& device) const {
    return device.subgroup * (matrix_tile / matrix_own_rows) * (matrix_tile / matrix_own_columns);
  }
  uint32_t matrix_pieces(const PhysicalDevice& device) const {
    return matrix_lanes(device) / matrix_tile;
  }
  /// Whether the device has matrices, and room for such workgroups of them.
  bool can_use_matrices(const PhysicalDevice& device) const;

  /// What suits a device.
  static Tuning of(const PhysicalDevice& device);
};

}  // namespace infer::vulkan
