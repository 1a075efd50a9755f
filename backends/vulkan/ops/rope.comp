#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/elements.glsl"

layout(constant_id = 0) const uint style = 0;  // op::Rope::Style

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 x, table, y;
  Shape shape;
  Strides x_strides, table_strides;
  uint pairs;
};

// Each element for itself: the other of its pair is read as well.
void main() {
  uvec3 i;
  if (!element(shape, step, i)) return;
  const uint from = at(x_strides, i.y, i.z);
  const uint to = at(shape, i.y, i.z) + i.x;
  const float own = x.v[from + i.x];
  if (i.x >= 2 * pairs) {
    y.v[to] = own;
    return;
  }
  const uint pair = style == 0 ? i.x / 2 : i.x % pairs;
  const bool first = style == 0 ? i.x % 2 == 0 : i.x < pairs;
  const uint step_to_other = style == 0 ? 1 : pairs;
  const float other = x.v[first ? from + i.x + step_to_other : from + i.x - step_to_other];
  const uint angle = at(table_strides, pair, i.z);
  const float c = table.v[angle];
  const float s = table.v[angle + 1];
  y.v[to] = first ? own * c - other * s : other * s + own * c;
}
