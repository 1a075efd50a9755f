#version 460
#include "backends/vulkan/glsl/common.glsl"

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 x, like, y;
  Shape shape;
  Strides x_strides, like_strides;
  float least;  // mean square of x
};

uint row;
uint like_row;
#define ROW_SUM sum_of_own
#define ROW_TERM(i) (x.v[row + (i)] * x.v[row + (i)])
#include "backends/vulkan/glsl/row_sum.glsl"
#define ROW_SUM sum_of_wanted
#define ROW_TERM(i) (like.v[like_row + (i)] * like.v[like_row + (i)])
#include "backends/vulkan/glsl/row_sum.glsl"

// One workgroup a row of d0.
void main() {
  const uint i1 = gl_WorkGroupID.y;
  const uint i2 = gl_WorkGroupID.z;
  if (i2 >= step.rows[shape.rows]) return;
  row = at(x_strides, i1, i2);
  like_row = at(like_strides, 0, i2);
  const float own = max(sum_of_own(shape.d0) / float(shape.d0), least);
  const float factor = sqrt(sum_of_wanted(shape.d0) / float(shape.d0) / own);
  const uint to = at(shape, i1, i2);
  for (uint i = gl_LocalInvocationIndex; i < shape.d0; i += 64) y.v[to + i] = x.v[row + i] * factor;
}
