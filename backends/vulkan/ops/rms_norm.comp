#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/norm.glsl"

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

// One workgroup a row of d0.
void main() {
  const uint i1 = gl_WorkGroupID.y;
  const uint i2 = gl_WorkGroupID.z;
  if (i2 >= step.rows[shape.rows]) return;
  const uint from = at(x_strides, i1, i2);
  const uint to = at(shape, i1, i2);
  const float factor = norm_factor(x, from, shape.d0, eps);
  for (uint i = gl_LocalInvocationIndex; i < shape.d0; i += gl_WorkGroupSize.x) {
    const float value = normed_value(x.v[from + i], factor);
    y.v[to + i] = kWeighted != 0 ? weighted_value(value, weight.v[i]) : value;
  }
}
