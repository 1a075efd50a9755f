#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/dot.glsl"

// Nothing but products of bytes, in as many chains as hide an instruction's delay: ceilings.cpp.
layout(local_size_x = 128) in;

layout(push_constant, scalar) uniform Push {
  I32 y;
  uint rounds;
};

const uint kChains = 8;

void main() {
  const uint i = gl_GlobalInvocationID.x;
  int sums[kChains];
  [[unroll]] for (uint c = 0; c < kChains; ++c) sums[c] = int(i + c);
  for (uint r = 0; r < rounds; ++r) {
    [[unroll]] for (uint c = 0; c < kChains; ++c) sums[c] += dot4(sums[c], int(r * 0x01010101u));
  }
  int all = 0;
  [[unroll]] for (uint c = 0; c < kChains; ++c) all ^= sums[c];
  y.v[i] = all;
}
