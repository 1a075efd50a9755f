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

const uint kTogether = 8;  // loads that wait for none of each other

// Every kLanes-th value from i on; what is behind the end is none.
void load(uint row, uint i, uint end, out float some[kTogether]) {
  [[unroll]] for (uint t = 0; t < kTogether; ++t) {
    some[t] = values.v[row * columns + min(i + t * kLanes, end - 1)];
  }
  [[unroll]] for (uint t = 0; t < kTogether; ++t) {
    if (i + t * kLanes >= end) some[t] = uintBitsToFloat(0x7fc00000u);
  }
}

// One workgroup a part of a row.
void main() {
  const uint part = gl_WorkGroupID.x;
  const uint row = gl_WorkGroupID.y;
  const uint lane = gl_LocalInvocationIndex;
  const uint end = min(columns, (part + 1) * part_columns);
  float most = -1.0 / 0.0;
  if (kListed == 0) {
    for (uint i = part * part_columns + lane; i < end; i += kTogether * kLanes) {
      float some[kTogether];
      load(row, i, end, some);
      [[unroll]] for (uint t = 0; t < kTogether; ++t) {
        if (some[t] > most) most = some[t];
      }
    }
    most = max_of(most, 0);
    if (lane == 0) largest.v[row * parts + part] = most;
    return;
  }
  for (uint i = lane; i < parts; i += kLanes) most = max(most, largest.v[row * parts + i]);
  const float least = max_of(most, 0) - reach;
  const uint list = row * (1 + 2 * capacity);
  for (uint i = part * part_columns + lane; i < end; i += kTogether * kLanes) {
    float some[kTogether];
    load(row, i, end, some);
    [[unroll]] for (uint t = 0; t < kTogether; ++t) {
      if (!(some[t] >= least)) continue;
      const uint at = atomicAdd(lists.v[list], 1);
      if (at >= capacity) continue;
      lists.v[list + 1 + 2 * at] = i + t * kLanes;
      lists.v[list + 2 + 2 * at] = floatBitsToUint(some[t]);
    }
  }
}
