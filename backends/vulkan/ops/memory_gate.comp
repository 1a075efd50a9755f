#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/math.glsl"

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 q, k, y;
  Shape shape;  // of the result: d0 is what d1 is of q and k
  Strides q_strides, k_strides;
  uint width;
  float scale;
};

uint q_row;
uint k_row;
#define ROW_SUM met_of
#define ROW_TERM(i) (q.v[q_row + (i)] * k.v[k_row + (i)])
#include "backends/vulkan/glsl/row_sum.glsl"

// One workgroup a row of d0.
void main() {
  const uint i1 = gl_WorkGroupID.y;
  const uint i2 = gl_WorkGroupID.z;
  if (i2 >= step.rows[shape.rows]) return;
  q_row = at(q_strides, i1, i2);
  k_row = at(k_strides, i1, i2);
  const float met = scale * met_of(width);
  const float root = sqrt(max(abs(met), 1e-6));
  if (gl_LocalInvocationIndex == 0) {
    y.v[at(shape, 0, i2) + i1] = sigmoid_of(met > 0 ? root : met < 0 ? -root : 0.0);
  }
}
