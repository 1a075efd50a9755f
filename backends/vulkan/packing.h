// How weights lie on the device: the fields of a type's blocks in planes, each plane with one field
// of all blocks after another. So a field of 16 bytes is aligned to 16 and neighbouring lanes read
// neighbouring words. The GLSL twins in quant/ read the same planes.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "engine/core/tensor_desc.h"

namespace infer::vulkan {

inline constexpr int kMaxPlanes = 5;

/// A field of a block as stored: bytes [offset, offset + bytes).
struct Plane {
  int32_t offset = 0;
  int32_t bytes = 0;
};

/// Where the planes of a weight lie. f64 and i64 are converted to f32 on the way.
struct WeightLayout {
  TensorDesc desc;
  std::span<const Plane> planes;
  bool converted = false;
  std::array<int64_t, kMaxPlanes> offsets{};  ///< bytes from the weight's start, multiples of 16
  int64_t bytes = 0;                          ///< of all planes

  explicit WeightLayout(const TensorDesc& desc);

  int64_t blocks() const { return blocks_; }
  int64_t stored_block_bytes() const { return stored_block_bytes_; }
  /// Bytes of a block in all planes together.
  int64_t packed_block_bytes() const;

 private:
  int64_t blocks_ = 0;
  int64_t stored_block_bytes_ = 0;
};

/// Takes `count` stored blocks apart: plane p of them goes to out + starts[p].
void pack_blocks(const WeightLayout& layout, const std::byte* stored, int64_t count, std::byte* out,
                 const std::array<int64_t, kMaxPlanes>& starts);

}  // namespace infer::vulkan
