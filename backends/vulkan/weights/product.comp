// Products of a weight matrix with columns of activations: matmul, moe_matmul and head_matmul. A
// lane computes kRows results for kColumns columns; the kParts subgroups of a workgroup take pieces of
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
layout(constant_id = 7) const uint kRows = 1;

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

shared float parts[kParts * kLanes * kRows * kColumns];

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
  const uint tile_rows = kLanes * kRows;
  for (uint tile = gl_WorkGroupID.x; tile * tile_rows < n; tile += gl_NumWorkGroups.x) {
    const uint first_row = tile * tile_rows + lane;  // of this lane; then every kLanes
    Row row[kRows];
    precise float sum[kRows * kColumns];
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      row[r] = row_at(uint64_t(matrix) * n + min(first_row + r * kLanes, n - 1));
      [[unroll]] for (uint c = 0; c < kColumns; ++c) sum[r * kColumns + c] = 0;
    }
    [[dont_unroll]] for (uint i = part; i < pieces; i += kParts) {
#if BLOCK == 1
      // One element after the other: the loads of a piece at once are more than some compilers bear.
      float a[kColumns][4];
      [[unroll]] for (uint c = 0; c < kColumns; ++c) load(x_at[c], i, lane, depth - 1, a[c]);
      [[unroll]] for (uint j = 0; j * kLanes < 32; ++j) {
        [[dont_unroll]] for (uint t = 0; t < min(kLanes, 32); ++t) {
          const uint at_k = i * kPiece + j * kLanes + t;
          float w[kRows];
          [[unroll]] for (uint r = 0; r < kRows; ++r) {
            w[r] = at_k < depth ? decode_one(row[r], min(at_k, depth - 1)) : 0.0;
          }
          [[unroll]] for (uint c = 0; c < kColumns; ++c) {
            const float activation = subgroupBroadcast(a[c][j], t);
            [[unroll]] for (uint r = 0; r < kRows; ++r) {
              sum[r * kColumns + c] = fma(w[r], activation, sum[r * kColumns + c]);
            }
          }
        }
      }
#else
      vec2 activations[kColumns * 16];
      [[unroll]] for (uint c = 0; c < kColumns; ++c) {
        uint64_t a[2];
        load(x_at[c], i, lane, a);
        [[unroll]] for (uint p = 0; p < 16; ++p) {
          activations[c * 16 + p] = uintBitsToFloat(
              unpackUint2x32(subgroupBroadcast(a[p / kLanes], p % kLanes)));
        }
      }
      [[unroll]] for (uint r = 0; r < kRows; ++r) {
        float v[32];
        decode(row[r], i, v);
        [[unroll]] for (uint c = 0; c < kColumns; ++c) {
          [[unroll]] for (uint p = 0; p < 16; ++p) {
            const vec2 pair = activations[c * 16 + p];
            sum[r * kColumns + c] = fma(v[2 * p], pair.x, sum[r * kColumns + c]);
            sum[r * kColumns + c] = fma(v[2 * p + 1], pair.y, sum[r * kColumns + c]);
          }
        }
      }
#endif
    }
    if (kParts > 1) {
      barrier();
      [[unroll]] for (uint s = 0; s < kRows * kColumns; ++s) {
        parts[(part * kRows * kColumns + s) * kLanes + lane] = sum[s];
      }
      barrier();
      if (part > 0) continue;
      [[unroll]] for (uint s = 0; s < kRows * kColumns; ++s) {
        for (uint other = 1; other < kParts; ++other) {
          sum[s] += parts[(other * kRows * kColumns + s) * kLanes + lane];
        }
      }
    }
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      const uint result = first_row + r * kLanes;
      if (result >= n) break;
      [[unroll]] for (uint c = 0; c < kColumns; ++c) {
        const uint column = first_column + c;
        if (column >= count) break;
        precise float all = sum[r * kColumns + c];
        if (kScaled != 0) all *= scale.v[matrix];
        if (kBiased != 0) all += bias.v[matrix * n + result];
        y.v[at(y_strides, place, column) + result] = all;
      }
    }
  }
}
