#version 460
#include "backends/vulkan/glsl/common.glsl"

#define WORKGROUP_SIZE(id, field, value) layout(local_size_x_id = id) in;
#include "backends/vulkan/glsl/constants.glsl"
#include "backends/vulkan/ops/rms_norm.def"

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 x, weight, y;
  Shape shape;
  Strides x_strides;
  float eps;
};

uint begin_of_row;
#define NORM_VALUE(i) x.v[begin_of_row + (i)]
#include "backends/vulkan/glsl/norm.glsl"

// One workgroup a row of d0.
void main() {
  const uint i1 = gl_WorkGroupID.y;
  const uint i2 = gl_WorkGroupID.z;
  if (i2 >= step.rows[shape.rows]) return;
  begin_of_row = at(x_strides, i1, i2);
  const uint to = at(shape, i1, i2);
  const float factor = norm_factor(shape.d0, eps);
  const uint size = gl_WorkGroupSize.x;
  for (uint first = gl_LocalInvocationIndex; first < shape.d0; first += kTogether * size) {
    float values[kTogether];
    [[unroll]] for (uint t = 0; t < kTogether; ++t) {
      const uint i = min(first + t * size, shape.d0 - 1);
      values[t] = normed_value(NORM_VALUE(i), factor);
      if (kWeighted != 0) values[t] = weighted_value(values[t], weight.v[i]);
    }
    [[unroll]] for (uint t = 0; t < kTogether; ++t) {
      const uint i = first + t * size;
      if (i < shape.d0) y.v[to + i] = values[t];
    }
  }
}
