// Products of a weight matrix with columns of activations: matmul, moe_matmul and head_matmul. A
// subgroup computes kRows results of kColumns columns; its lanes take pieces of K in turns. Lane l
// sums the products of pieces l, l + lanes, … one after the other, then the lanes' sums are added
// pairwise: in one order, however many rows and columns there are.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint kLanes = 32;
layout(constant_id = 1) const uint kRows = 1;
layout(constant_id = 2) const uint kColumns = 1;
// Which matrix: 0 the only one, 1 by ids, 2 by the column's place along d1.
layout(constant_id = 3) const uint kMatrix = 0;
layout(constant_id = 4) const uint kBiased = 0;
layout(constant_id = 5) const uint kScaled = 0;

layout(push_constant, scalar) uniform Push {
  Step step;
  uint64_t w;
  F32 x, bias, scale, y;
  I32 ids;
  uint k, n, matrices;
  Strides x_strides, y_strides;
  uint ids_stride;
  uint rows;
  uvec4 planes;  // of 1 and up: offset from w in units of 16 bytes
};

// Where row `row` of all matrices begins.
Row row_at(uint64_t row) {
  const uint64_t block = row * (k / BLOCK);
  return Row(w + block * PLANE0, w + uint64_t(planes.x) * 16 + block * PLANE1,
             w + uint64_t(planes.y) * 16 + block * PLANE2,
             w + uint64_t(planes.z) * 16 + block * PLANE3,
             w + uint64_t(planes.w) * 16 + block * PLANE4);
}

void main() {
  elements_of_row = k;
  const uint lane = gl_LocalInvocationID.x;
  const uint count = step.rows[rows];
  const uint first_column = gl_WorkGroupID.y * kColumns;
  if (first_column >= count) return;
  const uint place = gl_WorkGroupID.z;
  uint matrix = 0;
  if (kMatrix == 1) matrix = min(uint(ids.v[first_column * ids_stride + place]), matrices - 1);
  if (kMatrix == 2) matrix = place;

  uint x_at[kColumns];
  [[unroll]] for (uint c = 0; c < kColumns; ++c) {
    x_at[c] = at(x_strides, place, min(first_column + c, count - 1));
  }
  const uint pieces = (k + kPiece - 1) / kPiece;
  for (uint tile = gl_WorkGroupID.x; tile * kRows < n; tile += gl_NumWorkGroups.x) {
    Row row[kRows];
    precise float sum[kRows * kColumns];
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      row[r] = row_at(uint64_t(matrix) * n + min(tile * kRows + r, n - 1));
      [[unroll]] for (uint c = 0; c < kColumns; ++c) sum[r * kColumns + c] = 0;
    }
    for (uint i = lane; i < pieces; i += kLanes) {
      float values[kRows][32];
      [[unroll]] for (uint r = 0; r < kRows; ++r) decode(row[r], i, values[r]);
      const uvec2 run = runs(i);
#if BLOCK == 1
      // Beyond the end of the row the last activation meets weights of zero.
      const uint left = k - i * kPiece;
      [[unroll]] for (uint t = 0; t < 32; ++t) {
        [[unroll]] for (uint r = 0; r < kRows; ++r) values[r][t] = t < left ? values[r][t] : 0.0;
      }
#endif
      [[unroll]] for (uint c = 0; c < kColumns; ++c) {
        [[unroll]] for (uint t = 0; t < 32; ++t) {
          uint from = (t < 16 ? run.x : run.y - 16) + t;
#if BLOCK == 1
          from = min(from, k - 1);
#endif
          const float a = x.v[x_at[c] + from];
          [[unroll]] for (uint r = 0; r < kRows; ++r) {
            sum[r * kColumns + c] = fma(values[r][t], a, sum[r * kColumns + c]);
          }
        }
      }
    }
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      [[unroll]] for (uint c = 0; c < kColumns; ++c) {
        precise float all = sum[r * kColumns + c];
        for (uint step_size = kLanes / 2; step_size > 0; step_size /= 2) {
          all += subgroupShuffleXor(all, step_size);
        }
        const uint result = tile * kRows + r;
        const uint column = first_column + c;
        if (lane != (r * kColumns + c) % kLanes || result >= n || column >= count) continue;
        if (kScaled != 0) all *= scale.v[matrix];
        if (kBiased != 0) all += bias.v[matrix * n + result];
        y.v[at(y_strides, place, column) + result] = all;
      }
    }
  }
}
