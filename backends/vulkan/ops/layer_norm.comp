#version 460
#include "backends/vulkan/glsl/common.glsl"

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 x, weight, bias, y;
  Shape shape;
  Strides x_strides, weight_strides;
  uint weighted, biased;
  float eps;
};

uint row;
float mean;
float from_mean(uint i) {
  precise float d = x.v[row + i] - mean;
  return d;
}
#define ROW_SUM sum_of_values
#define ROW_TERM(i) x.v[row + (i)]
#include "backends/vulkan/glsl/row_sum.glsl"
#define ROW_SUM sum_of_squares
#define ROW_TERM(i) (from_mean(i) * from_mean(i))
#include "backends/vulkan/glsl/row_sum.glsl"

// One workgroup a row of d0.
void main() {
  const uint i1 = gl_WorkGroupID.y;
  const uint i2 = gl_WorkGroupID.z;
  if (i2 >= step.rows[shape.rows]) return;
  row = at(x_strides, i1, i2);
  mean = sum_of_values(shape.d0) / float(shape.d0);
  const float factor = 1.0 / sqrt(sum_of_squares(shape.d0) / float(shape.d0) + eps);
  const uint to = at(shape, i1, i2);
  const uint weights = at(weight_strides, i1, 0);
  for (uint i = gl_LocalInvocationIndex; i < shape.d0; i += 64) {
    precise float value = from_mean(i) * factor;
    if (weighted != 0) value *= weight.v[weights + i];
    if (biased != 0) value += bias.v[i];
    y.v[to + i] = value;
  }
}
