// What is left to drivers of the arithmetic of shaders.
#include <doctest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/vulkan/constants.h"
#include "backends/vulkan/exact_code.h"
#include "backends/vulkan/pipelines.h"

namespace infer::vulkan {
namespace {

// SPIR-V: opcodes and decorations, from its specification.
constexpr uint32_t kDecorate = 71;
constexpr uint32_t kNoContraction = 42;
constexpr size_t kHeaderWords = 5;

bool is_arithmetic(const uint32_t* words) {
  constexpr uint32_t kExtInst = 12;  // type, result, set, instruction
  constexpr uint32_t kFma = 50;      // of GLSL.std.450
  const uint32_t opcode = words[0] & 0xffff;
  if (opcode == kExtInst) return words[4] == kFma;
  // FNegate, FAdd, FSub, FMul, FDiv, VectorTimesScalar, Dot
  return opcode == 127 || opcode == 129 || opcode == 131 || opcode == 133 || opcode == 136 ||
         opcode == 142 || opcode == 148;
}

/// Floating-point operations that a driver may join or put into another order.
int64_t free_operations(std::span<const uint32_t> code) {
  std::set<uint32_t> kept;
  std::set<uint32_t> all;
  for (size_t i = kHeaderWords; i < code.size(); i += code[i] >> 16) {
    if (code[i] >> 16 == 0) return -1;
    const uint32_t opcode = code[i] & 0xffff;
    if (opcode == kDecorate && code[i + 2] == kNoContraction) kept.insert(code[i + 1]);
    if (is_arithmetic(&code[i])) all.insert(code[i + 2]);
  }
  int64_t free = 0;
  for (const uint32_t id : all) free += kept.contains(id) ? 0 : 1;
  return free;
}

// A constant's id is its place in the struct.
#define CONSTANT(id, name, field, value) static_assert(offsetof(Constants, field) == 4 * (id));
#define WORKGROUP_SIZE(id, field, value) CONSTANT(id, , field, value)
namespace product {
using Constants = ProductConstants;
#include "backends/vulkan/glsl/product.def"
}  // namespace product
namespace attention {
using Constants = AttentionConstants;
#include "backends/vulkan/ops/attention.def"
}  // namespace attention
namespace rope_store {
using Constants = RopeStoreConstants;
#include "backends/vulkan/ops/rope_store.def"
}  // namespace rope_store
namespace moe_group {
using Constants = MoeGroupConstants;
#include "backends/vulkan/ops/moe_group.def"
}  // namespace moe_group
namespace moe_route {
using Constants = MoeRouteConstants;
#include "backends/vulkan/ops/moe_route.def"
}  // namespace moe_route
namespace rms_norm {
using Constants = RmsNormConstants;
#include "backends/vulkan/ops/rms_norm.def"
}  // namespace rms_norm
namespace hadamard {
using Constants = HadamardConstants;
#include "backends/vulkan/ops/hadamard.def"
}  // namespace hadamard
namespace scan {
using Constants = ScanConstants;
#include "backends/vulkan/ops/scan.def"
}  // namespace scan
namespace causal_conv {
using Constants = CausalConvConstants;
#include "backends/vulkan/ops/causal_conv.def"
}  // namespace causal_conv
namespace text_attention {
using Constants = TextAttentionConstants;
#include "backends/vulkan/ops/text_attention.def"
}  // namespace text_attention
#undef WORKGROUP_SIZE
#undef CONSTANT

/// Ids of a shader's specialisation constants.
std::set<uint32_t> constants_of(std::span<const uint32_t> code) {
  constexpr uint32_t kSpecId = 1;
  std::set<uint32_t> ids;
  for (size_t i = kHeaderWords; i < code.size() && code[i] >> 16 > 0; i += code[i] >> 16) {
    if ((code[i] & 0xffff) == kDecorate && code[i + 2] == kSpecId) ids.insert(code[i + 3]);
  }
  return ids;
}

TEST_CASE("every specialisation constant of a shader has a field") {
  const std::pair<std::string, size_t> sizes[] = {
      {"product_", by_id(ProductConstants()).size()},
      {"tile_", by_id(ProductConstants()).size()},
      {"matrix_rate", by_id(WorkgroupConstants()).size()},
      {"matrix_attention", by_id(AttentionConstants()).size()},
      {"matrix_text_attention", by_id(TextAttentionConstants()).size()},
      {"matrix_", by_id(ProductConstants()).size()},
      {"attention", by_id(AttentionConstants()).size()},
      {"rope_store", by_id(RopeStoreConstants()).size()},
      {"rope", by_id(RopeConstants()).size()},
      {"moe_group", by_id(MoeGroupConstants()).size()},
      {"moe_route", by_id(MoeRouteConstants()).size()},
      {"rms_norm", by_id(RmsNormConstants()).size()},
      {"hadamard", by_id(HadamardConstants()).size()},
      {"glu", by_id(GluConstants()).size()},
      {"kv_store", by_id(KvStoreConstants()).size()},
      {"near_largest", by_id(NearLargestConstants()).size()},
      {"repack", by_id(RepackConstants()).size()},
      {"scan", by_id(ScanConstants()).size()},
      {"select_slots", by_id(SelectSlotsConstants()).size()},
      {"pooled_", by_id(PooledAttentionConstants()).size()},
      {"causal_conv", by_id(CausalConvConstants()).size()},
      {"text_attention", by_id(TextAttentionConstants()).size()},
      {"to_half", by_id(WorkgroupConstants()).size()},
  };
  size_t met = 0;
  for (const Shader& shader : all_shaders()) {
    INFO(shader.name);
    const std::set<uint32_t> ids = constants_of(shader.code);
    if (ids.empty()) continue;
    ++met;
    const auto of = std::ranges::find_if(
        sizes, [&](const auto& s) { return std::string(shader.name).starts_with(s.first); });
    REQUIRE(of != std::end(sizes));
    CHECK(*ids.rbegin() < of->second);
  }
  CHECK(met > 100);
}

TEST_CASE("no driver may change arithmetic: the same bits, whichever shader computes them") {
  int64_t changed = 0;
  for (const Shader& shader : all_shaders()) {
    INFO(shader.name);
    const std::vector<uint32_t> exact = exact_code(shader.code);
    CHECK(free_operations(exact) == 0);
    CHECK(exact_code(exact) == exact);  // nothing is marked twice
    changed += exact.size() > shader.code.size() ? 1 : 0;
  }
  CHECK(changed > 50);
}

}  // namespace
}  // namespace infer::vulkan
