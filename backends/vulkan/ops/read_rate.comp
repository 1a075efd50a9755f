#version 460
#include "backends/vulkan/glsl/common.glsl"

// Nothing but reading, 16 bytes at a time and several at once: ceilings.cpp.
layout(local_size_x = 128) in;

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Words { uvec4 v[]; };

layout(push_constant, scalar) uniform Push {
  U32 y;
  uint rounds;
  uint words;  // of 16 bytes; every lane reads equally many
  Words x;
};

const uint kTogether = 8;

void main() {
  const uint lanes = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
  uvec4 all = uvec4(0);
  for (uint r = 0; r < rounds; ++r) {
    [[dont_unroll]] for (uint i = gl_GlobalInvocationID.x; i < words; i += kTogether * lanes) {
      uvec4 some[kTogether];
      [[unroll]] for (uint t = 0; t < kTogether; ++t) some[t] = x.v[i + t * lanes];
      [[unroll]] for (uint t = 0; t < kTogether; ++t) all = (all ^ some[t]) + r;
    }
  }
  y.v[gl_GlobalInvocationID.x] = all.x ^ all.y ^ all.z ^ all.w;
}
