#version 460
#include "backends/vulkan/glsl/common.glsl"

// The best of the parts of a list that select_slots.comp has made: a workgroup a list.
const uint kLanes = 64;
layout(local_size_x = kLanes) in;
#include "backends/vulkan/glsl/constants.glsl"
#include "backends/vulkan/ops/select_slots.def"
#include "backends/vulkan/glsl/best.glsl"

layout(push_constant, scalar) uniform Push {
  Step step;
  I32 slots, y;
  uint64_t parts;    // [1 + kRoom, kParts, lists, rows]
  uint64_t buffers;  // [1 + kRoom, lists, rows]
  uint y_stride;
};

void main() {
  const uint r = gl_WorkGroupID.x;
  if (r >= step.rows[0]) return;
  const uint last = uint(slots.v[r]);
  if (sees_all(last)) return;
  const uint list = gl_WorkGroupID.y;
  const uint own = r * gl_NumWorkGroups.y + list;
  start_best(buffers + uint64_t(own) * kBufferBytes);
  for (uint part = 0; part < kParts; ++part) {
    Numbers from = Numbers(parts + uint64_t(own * kParts + part) * kBufferBytes);
    const uint size = uint(from.v[0]);
    for (uint first = 0; first < size; first += kLanes) {
      const uint i = first + gl_LocalInvocationIndex;
      add_best(i < size ? from.v[1 + i] : 0);
    }
  }
  write_best(y, r * y_stride + list * kMost, last);
}
