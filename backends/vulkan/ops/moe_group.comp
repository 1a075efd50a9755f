#version 460
#include "backends/vulkan/glsl/common.glsl"

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
  if (lane == 0) {
    uint place = 0;
    uint group = 0;
    for (uint e = 0; e < kExperts; ++e) {
      places_before[e] = place;
      groups_before[e] = group;
      place += counts[e];
      group += (counts[e] + kMost - 1) / kMost;
    }
    groups.v[0] = int(group);
  }
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
