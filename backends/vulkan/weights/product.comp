// Products of a weight matrix with columns of activations: matmul, moe_matmul and head_matmul. A
// lane computes one result for kColumns columns; the kParts subgroups of a workgroup take pieces of
// K in turns. Subgroup s sums the products of pieces s, s + kParts, … one after the other, then the
// subgroups' sums are added in their order: in one order, however many rows and columns there are.
// The activations of a piece are loaded by the lanes together and handed round.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_EXT_shader_subgroup_extended_types_int64 : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kLanes = 32;  // of a subgroup
layout(constant_id = 2) const uint kParts = 1;
layout(constant_id = 3) const uint kColumns = 1;
// Which matrix: 0 the only one, 1 by ids, 2 by the column's place along d1.
layout(constant_id = 4) const uint kMatrix = 0;
layout(constant_id = 5) const uint kBiased = 0;
layout(constant_id = 6) const uint kScaled = 0;

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

shared float parts[kParts * kLanes * kColumns];

#if BLOCK == 1
// The piece of a column at `from`, 32 / kLanes elements a lane (at least one): element t is in lane
// t % kLanes.
void load(uint64_t from, uint i, uint lane, uint last, out float a[4]) {
  [[unroll]] for (uint j = 0; j < 4; ++j) {
    a[j] = 0;
    if (j * kLanes >= 32) continue;
    const uint place = i * kPiece + min(j * kLanes + lane, 31);
    a[j] = F32(from).v[min(place, last)];  // beyond the end it meets weights of zero
  }
}
#else
// The piece of a column at `from`, 16 / kLanes pairs of elements a lane (at least one): pair p is in
// lane p % kLanes.
void load(uint64_t from, uint i, uint lane, out uint64_t a[2]) {
  const uvec2 run = runs(i);
  [[unroll]] for (uint j = 0; j < 2; ++j) {
    a[j] = 0;
    if (j * kLanes >= 16) continue;
    const uint p = min(j * kLanes + lane, 15);
    const uint place = p < 8 ? run.x + 2 * p : run.y + 2 * p - 16;
    a[j] = Pair(from + uint64_t(place) * 4).v;
  }
}
#endif

void main() {
  elements_of_row = k;
  tables = step.tables;
  const uint lane = gl_SubgroupInvocationID;
  const uint part = gl_SubgroupID;
  const uint count = step.rows[rows];
  const uint first_column = gl_WorkGroupID.y * kColumns;
  if (first_column >= count) return;
  const uint place = gl_WorkGroupID.z;
  uint matrix = 0;
  if (kMatrix == 1) matrix = min(uint(ids.v[first_column * ids_stride + place]), matrices - 1);
  if (kMatrix == 2) matrix = place;

  // Read once: some drivers would read push constants again and again inside the loops.
  const uint depth = k;
  uint64_t x_at[kColumns];
  [[unroll]] for (uint c = 0; c < kColumns; ++c) {
    x_at[c] = uint64_t(x) + uint64_t(at(x_strides, place, min(first_column + c, count - 1))) * 4;
  }
  const uint pieces = (depth + kPiece - 1) / kPiece;
  for (uint tile = gl_WorkGroupID.x; tile * kLanes < n; tile += gl_NumWorkGroups.x) {
    const uint result = tile * kLanes + lane;
    const Row row = row_at(uint64_t(matrix) * n + min(result, n - 1));
    precise float sum[kColumns];
    [[unroll]] for (uint c = 0; c < kColumns; ++c) sum[c] = 0;
    [[dont_unroll]] for (uint i = part; i < pieces; i += kParts) {
#if BLOCK == 1
      // One element after the other: the loads of a piece at once are more than some compilers bear.
      float a[kColumns][4];
      [[unroll]] for (uint c = 0; c < kColumns; ++c) load(x_at[c], i, lane, depth - 1, a[c]);
      [[unroll]] for (uint j = 0; j * kLanes < 32; ++j) {
        [[dont_unroll]] for (uint t = 0; t < min(kLanes, 32); ++t) {
          const uint at_k = i * kPiece + j * kLanes + t;
          const float w = at_k < depth ? decode_one(row, min(at_k, depth - 1)) : 0.0;
          [[unroll]] for (uint c = 0; c < kColumns; ++c) {
            sum[c] = fma(w, subgroupBroadcast(a[c][j], t), sum[c]);
          }
        }
      }
#else
      float v[32];
      decode(row, i, v);
      [[unroll]] for (uint c = 0; c < kColumns; ++c) {
        uint64_t a[2];
        load(x_at[c], i, lane, a);
        [[unroll]] for (uint p = 0; p < 16; ++p) {
          const vec2 pair = uintBitsToFloat(
              unpackUint2x32(subgroupBroadcast(a[p / kLanes], p % kLanes)));
          sum[c] = fma(v[2 * p], pair.x, sum[c]);
          sum[c] = fma(v[2 * p + 1], pair.y, sum[c]);
        }
      }
#endif
    }
    if (kParts > 1) {
      barrier();
      [[unroll]] for (uint c = 0; c < kColumns; ++c) {
        parts[(part * kColumns + c) * kLanes + lane] = sum[c];
      }
      barrier();
      if (part > 0) continue;
      [[unroll]] for (uint c = 0; c < kColumns; ++c) {
        for (uint other = 1; other < kParts; ++other) {
          sum[c] += parts[(other * kColumns + c) * kLanes + lane];
        }
      }
    }
    if (result >= n) continue;
    [[unroll]] for (uint c = 0; c < kColumns; ++c) {
      const uint column = first_column + c;
      if (column >= count) break;
      precise float all = sum[c];
      if (kScaled != 0) all *= scale.v[matrix];
      if (kBiased != 0) all += bias.v[matrix * n + result];
      y.v[at(y_strides, place, column) + result] = all;
    }
  }
}
