#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/bytes.glsl"
#extension GL_KHR_shader_subgroup_basic : require

// Columns of activations as bytes for the products of several columns, which so round each only once.
// Eight invocations a piece.
layout(local_size_x = 64) in;

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 x;
  U32 y;        // pieces [pieces, d1, rows]
  uint pieces;  // of a column
  uint d1;
  uint rows;    // which count of the step
  Strides x_strides;
};

void main() {
  const uint row = gl_WorkGroupID.y;
  if (row >= step.rows[rows]) return;
  // A piece's lanes do all or nothing together: those beyond the end repeat the last piece.
  const uint lane = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
  const uint piece = min((gl_WorkGroupID.x * gl_WorkGroupSize.x + lane) / 8, pieces - 1);
  const uint t = lane % 8;
  const uint from = at(x_strides, gl_WorkGroupID.z, row) + 32 * piece + 4 * t;
  int word;
  float scale;
  int sum;
  quantise(vec4(x.v[from], x.v[from + 1], x.v[from + 2], x.v[from + 3]), word, scale, sum);
  const uint to = ((row * d1 + gl_WorkGroupID.z) * pieces + piece) * (kBytePiece / 4);
  y.v[to + t] = uint(word);
  const int second_sum = subgroupShuffleXor(sum, 4);
  if (t == 0) {
    y.v[to + 8] = floatBitsToUint(scale);
    y.v[to + 9] = uint(sum);
    y.v[to + 10] = uint(second_sum);
  }
}
