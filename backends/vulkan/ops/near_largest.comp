#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/reduce.glsl"

// The values of each row that are near the row's largest, in two passes over parts of the rows
// (near_largest.cpp): the largest of each part, then a list. What is not a number is neither.
layout(constant_id = 0) const uint kListed = 0;  // the second pass

layout(push_constant, scalar) uniform Push {
  F32 values, largest;
  U32 lists;  // for each row: how many are near, then up to `capacity` pairs of index and value
  uint columns, part_columns, parts, capacity;
  float reach;
};

// One workgroup a part of a row.
void main() {
  const uint part = gl_WorkGroupID.x;
  const uint row = gl_WorkGroupID.y;
  const uint lane = gl_LocalInvocationIndex;
  const uint end = min(columns, (part + 1) * part_columns);
  float most = -1.0 / 0.0;
  if (kListed == 0) {
    for (uint i = part * part_columns + lane; i < end; i += kLanes) {
      const float x = values.v[row * columns + i];
      if (x > most) most = x;
    }
    most = max_of(most, 0);
    if (lane == 0) largest.v[row * parts + part] = most;
    return;
  }
  for (uint i = lane; i < parts; i += kLanes) most = max(most, largest.v[row * parts + i]);
  const float least = max_of(most, 0) - reach;
  const uint list = row * (1 + 2 * capacity);
  for (uint i = part * part_columns + lane; i < end; i += kLanes) {
    const float x = values.v[row * columns + i];
    if (!(x >= least)) continue;
    const uint at = atomicAdd(lists.v[list], 1);
    if (at >= capacity) continue;
    lists.v[list + 1 + 2 * at] = i;
    lists.v[list + 2 + 2 * at] = floatBitsToUint(x);
  }
}
