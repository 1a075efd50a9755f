#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/elements.glsl"

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 x;
  I32 begins, ends;
  F32 y;
  Shape shape;
  Strides x_strides;
};

// The sum is kept with what its roundings lost (Kahan 1965).
void main() {
  uvec3 i;
  if (!element(shape, step, i)) return;
  const uint begin = uint(begins.v[i.z]);
  const uint end = uint(ends.v[i.z]);
  precise float sum = 0;
  precise float lost = 0;
  for (uint r = begin; r < end; ++r) {
    precise float value = x.v[at(x_strides, i.y, r) + i.x] - lost;
    precise float next = sum + value;
    lost = (next - sum) - value;
    sum = next;
  }
  y.v[at(shape, i.y, i.z) + i.x] = sum / float(end - begin);
}
