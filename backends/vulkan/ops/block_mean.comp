#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/cache.glsl"

layout(local_size_x = 64) in;

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 x, y;
  I32 slots, sequences;
  uint width;
  uint x_stride, y_stride;  // of rows
  uint kind, offset;        // of the state, in bytes
  uint block;               // slots of a block
};

const uint kAhead = 8;  // rows whose elements are loaded together

uint element;

F32 state_of(uint sequence) {
  return F32(page_of(step.kinds[kind], sequence, 0) + offset + element * 4);
}

// An invocation takes an element through the rows of the step, for the sequences whose number modulo
// the count of workgroups along z is z.
void main() {
  element = gl_GlobalInvocationID.x;
  if (element >= width) return;
  int held = -1;  // the sequence of `sum`
  precise float sum = 0;
  const uint rows = step.rows[0];
  for (uint first = 0; first < rows; first += kAhead) {
    bool mine[kAhead];
    float values[kAhead];
    [[unroll]] for (uint i = 0; i < kAhead; ++i) {
      const uint r = first + i;
      mine[i] = r < rows && uint(sequences.v[r]) % gl_NumWorkGroups.z == gl_WorkGroupID.z;
      if (mine[i]) values[i] = x.v[r * x_stride + element];
    }
    [[unroll]] for (uint i = 0; i < kAhead; ++i) {
      if (!mine[i]) continue;
      const uint r = first + i;
      const uint place = uint(slots.v[r]) % block;
      if (sequences.v[r] != held) {
        if (held >= 0) state_of(uint(held)).v[0] = sum;
        held = sequences.v[r];
        sum = place == 0 ? 0.0 : state_of(uint(held)).v[0];
      }
      sum = (place == 0 ? 0.0 : sum) + values[i];
      y.v[r * y_stride + element] = sum / float(place + 1);
    }
  }
  if (held >= 0) state_of(uint(held)).v[0] = sum;
}
