#version 460
#include "backends/vulkan/glsl/common.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

// The places of rows at which experts are used, sorted by expert and cut into groups of at most kMost
// for the products to compute together (glsl/product.glsl: kMatrix 3). One workgroup. Places of one
// expert have no order, as what becomes of one does not depend on its group.
#define WORKGROUP_SIZE(id, field, value) layout(local_size_x_id = id) in;
#include "backends/vulkan/glsl/constants.glsl"
#include "backends/vulkan/ops/moe_group.def"

layout(push_constant, scalar) uniform Push {
  Step step;
  I32 ids;
  I32 groups;
  uint rows;
  uint ids_stride;
  uint places;  // where in `groups` they begin
};

shared uint counts[kExperts];
shared uint places_before[kExperts];
shared uint groups_before[kExperts];

shared uvec2 sums[gl_WorkGroupSize.x];  // of subgroups

// The sum of x over the lanes before this one, and of all lanes.
uvec2 sum_before(uvec2 x, out uvec2 all) {
  uvec2 before = subgroupExclusiveAdd(x);
  const uvec2 own = subgroupAdd(x);
  if (subgroupElect()) sums[gl_SubgroupID] = own;
  barrier();
  all = uvec2(0);
  for (uint s = 0; s < gl_NumSubgroups; ++s) {
    if (s < gl_SubgroupID) before += sums[s];
    all += sums[s];
  }
  return before;
}

uint expert_of(uint i) {
  return min(uint(ids.v[i / kUsed * ids_stride + i % kUsed]), kExperts - 1);
}

void main() {
  const uint lane = gl_LocalInvocationIndex;
  const uint lanes = gl_WorkGroupSize.x;
  const uint all = step.rows[rows] * kUsed;
  for (uint e = lane; e < kExperts; e += lanes) counts[e] = 0;
  barrier();
  for (uint i = lane; i < all; i += lanes) atomicAdd(counts[expert_of(i)], 1);
  barrier();
  // A lane has neighbouring experts.
  const uint own = (kExperts + lanes - 1) / lanes;
  const uint begin = min(lane * own, kExperts);
  const uint end = min(begin + own, kExperts);
  uvec2 of_lane = uvec2(0);  // places and groups
  for (uint e = begin; e < end; ++e) of_lane += uvec2(counts[e], (counts[e] + kMost - 1) / kMost);
  uvec2 of_all;
  uvec2 before = sum_before(of_lane, of_all);
  for (uint e = begin; e < end; ++e) {
    places_before[e] = before.x;
    groups_before[e] = before.y;
    before += uvec2(counts[e], (counts[e] + kMost - 1) / kMost);
  }
  if (lane == 0) groups.v[0] = int(of_all.y);
  barrier();
  for (uint e = lane; e < kExperts; e += lanes) {
    uint to = 4 + groups_before[e] * 4;
    for (uint done = 0; done < counts[e]; done += kMost) {
      groups.v[to] = int(e);
      groups.v[to + 1] = int(places + 2 * (places_before[e] + done));
      groups.v[to + 2] = int(min(counts[e] - done, kMost));
      to += 4;
    }
  }
  barrier();
  for (uint i = lane; i < all; i += lanes) {
    const uint to = places + 2 * atomicAdd(places_before[expert_of(i)], 1);
    groups.v[to] = int(i % kUsed);
    groups.v[to + 1] = int(i / kUsed);
  }
}
