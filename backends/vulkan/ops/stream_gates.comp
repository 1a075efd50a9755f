#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/math.glsl"

// A workgroup computes a row, an invocation an element of its matrix.
layout(local_size_x = 64) in;

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 x, scale, base, taken, given, mix;
  uint rows;
  uint x_stride, taken_stride, given_stride, mix_stride;
  uint streams, iterations;
  float eps;
};

shared float matrix[64];

uint row;

float affine(uint element, uint part) {
  const precise float y = fma(scale.v[part], x.v[row * x_stride + element], base.v[element]);
  return y;
}

float sum_of(uint first, uint pitch) {
  precise float sum = 0;
  for (uint j = 0; j < streams; ++j) sum += matrix[first + j * pitch];
  return sum;
}

void replace(uint i, float value) {
  barrier();  // all have read it
  if (i < streams * streams) matrix[i] = value;
  barrier();
}

void main() {
  row = gl_WorkGroupID.x;
  if (row >= step.rows[rows]) return;
  const uint n = streams;
  const uint i = gl_LocalInvocationIndex;
  if (i < n) taken.v[row * taken_stride + i] = sigmoid_of(affine(i, 0)) + eps;
  if (iterations == 0) return;
  if (i < n) given.v[row * given_stride + i] = 2.0 * sigmoid_of(affine(n + i, 1));

  const bool inside = i < n * n;
  const uint first = inside ? i / n * n : 0;  // of its row
  const uint column = inside ? i % n : 0;
  precise float value = inside ? affine(2 * n + i, 2) : 0.0;
  replace(i, value);
  if (inside) {
    float most = matrix[first];
    for (uint j = 1; j < n; ++j) most = max(most, matrix[first + j]);
    value = exp_of(value - most);
  }
  replace(i, value);
  if (inside) value = value / sum_of(first, 1) + eps;
  replace(i, value);
  for (uint turn = 0; turn < iterations; ++turn) {
    if (turn > 0) {
      if (inside) value = value / (sum_of(first, 1) + eps);
      replace(i, value);
    }
    if (inside) value = value / (sum_of(column, n) + eps);
    replace(i, value);
  }
  if (inside) mix.v[row * mix_stride + i] = value;
}
