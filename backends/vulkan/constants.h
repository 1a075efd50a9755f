// Specialisation constants of shaders, by name. Each .def file of constants becomes a struct. C++
// and GLSL both read the file, so that names and ids stand in one place:
//   CONSTANT(id, name in the shaders, field of the struct, default)
//   WORKGROUP_SIZE(id, field of the struct, default)   the shaders' local_size_x_id
// Ids count from 0 in the order of the lines. A shader ignores those that it does not use.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

namespace infer::vulkan {

#define CONSTANT(id, name, field, value) uint32_t field = value;
#define WORKGROUP_SIZE(id, field, value) uint32_t field = value;
struct ProductConstants {
#include "backends/vulkan/glsl/product.def"
};
struct AttentionConstants {
#include "backends/vulkan/ops/attention.def"
};
struct RopeStoreConstants {
#include "backends/vulkan/ops/rope_store.def"
};
struct MoeGroupConstants {
#include "backends/vulkan/ops/moe_group.def"
};
struct MoeRouteConstants {
#include "backends/vulkan/ops/moe_route.def"
};
struct RmsNormConstants {
#include "backends/vulkan/ops/rms_norm.def"
};
struct HadamardConstants {
#include "backends/vulkan/ops/hadamard.def"
};
struct SelectSlotsConstants {
#include "backends/vulkan/ops/select_slots.def"
};
struct PooledAttentionConstants {
#include "backends/vulkan/ops/pooled_attention.def"
};
struct TextAttentionConstants {
#include "backends/vulkan/ops/text_attention.def"
};
struct CausalConvConstants {
#include "backends/vulkan/ops/causal_conv.def"
};
struct ScanConstants {
#include "backends/vulkan/ops/scan.def"
};
#undef CONSTANT
#undef WORKGROUP_SIZE

// For shaders with a single constant.
struct RopeConstants {
  uint32_t style;  ///< op::Rope::Style
};
struct GluConstants {
  uint32_t kind;  ///< op::Glu::Kind
};
struct KvStoreConstants {
  uint32_t type;  ///< cache_type()
};
struct NearLargestConstants {
  uint32_t listed;  ///< 1: the second pass
};
struct RepackConstants {
  uint32_t cell_words;
};
struct WorkgroupConstants {
  uint32_t workgroup;
};
struct NoConstants {};

/// By their ids.
template <typename Constants>
auto by_id(const Constants& constants) {
  static_assert(std::is_trivially_copyable_v<Constants>);
  if constexpr (std::is_empty_v<Constants>) {
    return std::array<uint32_t, 0>{};
  } else {
    static_assert(sizeof(Constants) % sizeof(uint32_t) == 0);
    return std::bit_cast<std::array<uint32_t, sizeof(Constants) / sizeof(uint32_t)>>(constants);
  }
}

}  // namespace infer::vulkan
