// Products of weight matrices with columns of activations: matmul, moe_matmul and head_matmul, with
// what is fused into them (fusion.h). A lane computes kRows results of a matrix, or of a gate and its
// partner, for kColumns columns; the kParts subgroups of a workgroup have a stretch of K each. A
// stretch is summed element by element, then the stretches are added in their order: one order for a
// row, however many rows and columns there are. With INTEGER, for types with a file in quant/levels,
// pieces of activations are rounded to bytes and multiplied as integers.
#include "backends/vulkan/glsl/activation.glsl"
#include "backends/vulkan/glsl/norm.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_EXT_shader_subgroup_extended_types_int64 : require

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint kLanes = 32;  // of a subgroup
layout(constant_id = 2) const uint kParts = 1;
layout(constant_id = 3) const uint kColumns = 1;
layout(constant_id = 4) const uint kRows = 1;
// Which matrix of a weight: 0 the only one, 1 by ids, 2 by the column's place along d1.
layout(constant_id = 5) const uint kMatrix = 0;
// Activations are loaded by the lanes together and handed round.
layout(constant_id = 6) const uint kHanded = 0;
// Every column begins at a multiple of 16 bytes.
layout(constant_id = 7) const uint kAligned = 0;
// 0: no norm before; 1: one, 2: and weights of it. Only with a single column.
layout(constant_id = 8) const uint kNorm = 0;
layout(constant_id = 9) const uint kNormed = 1;  // elements of that column
// What follows: 0 nothing, 1 a sum, 2 and up: a Glu of kind kAfter - 2 of two weights.
layout(constant_id = 10) const uint kAfter = 0;

// Pieces whose activations the lanes round together.
#ifdef INTEGER
#extension GL_KHR_shader_subgroup_shuffle : require
const uint kAtOnce = kLanes / 8;
#else
const uint kAtOnce = 1;
#endif

const uint kWeights = kAfter >= 2 ? 2 : 1;  // that a lane has rows of
const uint kSumsOfLane = kWeights * kRows * kColumns;

// product.cpp: MatrixPush
struct Matrix {
  uint64_t w, bias, scale, y, residual;
  uint n, first_tile;
  Strides y_strides, residual_strides;
  float factor;
  uint unused;
  uvec4 planes;  // of 1 and up: offset from w in units of 16 bytes
};
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Matrices {
  Matrix v[];
};

layout(push_constant, scalar) uniform Push {
  Step step;
  Matrices weights;
  F32 x;
  I32 ids;
  F32 norm;
  uint k, matrices, tiles, weight_count;
  Strides x_strides;
  uint ids_stride;
  uint rows;
  float eps;
  float alpha, limit;
};

shared float parts[kParts > 1 ? kParts * kLanes * kSumsOfLane : 1];
shared float normed[kNormed];

// Columns, by address or in shared memory.
float activation(uint64_t from, uint i) { return kNorm != 0 ? normed[i] : F32(from).v[i]; }

// Beyond the end of a column, where weights are zero, nothing may be read.
uint64_t pair_at(uint64_t from, uint i) {
#ifdef RAGGED
  const float first = i < elements_of_row ? activation(from, i) : 0.0;
  const float second = i + 1 < elements_of_row ? activation(from, i + 1) : 0.0;
  return packUint2x32(floatBitsToUint(vec2(first, second)));
#endif
  if (kNorm != 0) return packUint2x32(floatBitsToUint(vec2(normed[i], normed[i + 1])));
  return Pair(from + uint64_t(i) * 4).v;
}

vec4 four_at(uint64_t from, uint i) {
#ifdef RAGGED
  vec4 some = vec4(0);
  [[unroll]] for (uint t = 0; t < 4; ++t) {
    if (i + t < elements_of_row) some[t] = activation(from, i + t);
  }
  return some;
#endif
  if (kNorm != 0) return vec4(normed[i], normed[i + 1], normed[i + 2], normed[i + 3]);
  if (kAligned != 0) return F32x4(from + uint64_t(i) * 4).v;
  F32 at = F32(from + uint64_t(i) * 4);
  return vec4(at.v[0], at.v[1], at.v[2], at.v[3]);
}

#ifdef INTEGER
// Word t of a piece of a column in bytes: of 8 lanes each has one, and all of them the piece's scale,
// the largest magnitude over 127. The sum of its run is in four of them. A NaN stays one in the scale.
void quantise(uint64_t from, uint i, uint t, out int word, out float scale, out int sum) {
  const uvec2 run = runs(i);
  const vec4 x = four_at(from, t < 4 ? run.x + 4 * t : run.y + 4 * t - 16);
  const uvec4 sizes = floatBitsToUint(abs(x));
  uint largest = max(max(sizes.x, sizes.y), max(sizes.z, sizes.w));
  [[unroll]] for (uint other = 1; other < 8; other *= 2) {
    largest = max(largest, subgroupShuffleXor(largest, other));
  }
  const float most = uintBitsToFloat(largest);
  scale = most / 127.0;
  const float inverse = most > 1e-30 ? 127.0 / most : 0.0;
  const ivec4 q = ivec4(clamp(roundEven(x * inverse), -127.0, 127.0));
  word = (q.x & 255) | (q.y & 255) << 8 | (q.z & 255) << 16 | q.w << 24;
  sum = q.x + q.y + q.z + q.w;
  sum += subgroupShuffleXor(sum, 1);
  sum += subgroupShuffleXor(sum, 2);
}

// The product of a piece of a row with that of a column.
float piece_product(int q[8], vec2 scale, vec2 least, int a[8], float a_scale, ivec2 a_sums) {
  ivec2 sums = -OFFSET * a_sums;
  [[unroll]] for (uint t = 0; t < 4; ++t) {
    sums.x += dot4(q[t], a[t]);
    sums.y += dot4(q[t + 4], a[t + 4]);
  }
#ifdef SINGLE
  precise float all = scale.x * float(sums.x + sums.y);
#else
  precise float all = scale.x * float(sums.x);
  all = fma(scale.y, float(sums.y), all);
#endif
#ifdef LEAST
  all = fma(-least.x, float(a_sums.x), all);
  all = fma(-least.y, float(a_sums.y), all);
#endif
  return all * a_scale;
}
#elif BLOCK == 1
// The piece of a column, 32 / kLanes elements a lane (at least one): element t is in lane t % kLanes.
void load(uint64_t from, uint i, uint lane, uint last, out float a[4]) {
  [[unroll]] for (uint j = 0; j < 4; ++j) {
    a[j] = 0;
    if (j * kLanes >= 32) continue;
    const uint place = i * kPiece + min(j * kLanes + lane, 31);
    a[j] = activation(from, min(place, last));  // beyond the end it meets weights of zero
  }
}
#else
// The piece of a column, all of it in every lane.
void load(uint64_t from, uint i, uint lane, out vec2 a[16]) {
  const uvec2 run = runs(i);
  if (kHanded == 0) {
    [[unroll]] for (uint p = 0; p < 8; ++p) {
      const vec4 four = four_at(from, p < 4 ? run.x + 4 * p : run.y + 4 * p - 16);
      a[2 * p] = four.xy;
      a[2 * p + 1] = four.zw;
    }
    return;
  }
  // 16 / kLanes pairs a lane (at least one): pair p is in lane p % kLanes.
  uint64_t own[2];
  [[unroll]] for (uint j = 0; j < 2; ++j) {
    own[j] = 0;
    if (j * kLanes >= 16) continue;
    const uint p = min(j * kLanes + lane, 15);
    own[j] = pair_at(from, p < 8 ? run.x + 2 * p : run.y + 2 * p - 16);
  }
  [[unroll]] for (uint p = 0; p < 16; ++p) {
    a[p] = uintBitsToFloat(unpackUint2x32(subgroupBroadcast(own[p / kLanes], p % kLanes)));
  }
}
#endif

void normalise(uint from) {
  const float factor = norm_factor(x, from, k, eps);
  for (uint i = gl_LocalInvocationIndex; i < kNormed; i += gl_WorkGroupSize.x) {
    const float value = normed_value(x.v[from + i], factor);
    normed[i] = kNorm == 2 ? weighted_value(value, norm.v[i]) : value;
  }
  barrier();
}

// The sum of a row, with the scale and bias of its matrix.
float finished(uint which, float sum, uint matrix, uint result) {
  const Matrix of = weights.v[which];
  precise float all = sum;
  if (of.scale != 0) all *= F32(of.scale).v[matrix];
  if (of.bias != 0) all += F32(of.bias).v[matrix * of.n + result];
  return all;
}

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
  if (kNorm != 0) normalise(at(x_strides, 0, first_column));
  const uint pieces = (depth + kPiece - 1) / kPiece;
  const uint stretch = (pieces + kParts - 1) / kParts;
  const uint first_piece = part * stretch;
  const uint end_piece = min(first_piece + stretch, pieces);
  uint which = 0;
  for (uint tile = gl_WorkGroupID.x; tile < tiles; tile += gl_NumWorkGroups.x) {
    while (which + 1 < weight_count && tile >= weights.v[which + 1].first_tile) ++which;
    const uint n = weights.v[which].n;
    // Of this lane; then every kLanes.
    const uint first_row = (tile - weights.v[which].first_tile) * (kLanes * kRows) + lane;
    Row row[kWeights * kRows];
    precise float sum[kSumsOfLane];
    [[unroll]] for (uint m = 0; m < kWeights; ++m) {
      const Planes planes = Planes(weights.v[which + m].w, weights.v[which + m].planes);
      [[unroll]] for (uint r = 0; r < kRows; ++r) {
        row[m * kRows + r] =
            row_at(planes, depth, n, matrix, min(first_row + r * kLanes, n - 1));
      }
    }
    [[unroll]] for (uint s = 0; s < kSumsOfLane; ++s) sum[s] = 0;
    [[dont_unroll]] for (uint i = first_piece; i < end_piece; i += kAtOnce) {
#ifdef INTEGER
      int words[kColumns];
      float scales[kColumns];
      int run_sums[kColumns];
      [[unroll]] for (uint c = 0; c < kColumns; ++c) {
        quantise(x_at[c], min(i + lane / 8, pieces - 1), lane % 8, words[c], scales[c],
                 run_sums[c]);
      }
      [[unroll]] for (uint p = 0; p < kAtOnce; ++p) {
        if (i + p >= end_piece) break;
        int a[kColumns][8];
        float a_scales[kColumns];
        ivec2 a_sums[kColumns];
        [[unroll]] for (uint c = 0; c < kColumns; ++c) {
          [[unroll]] for (uint t = 0; t < 8; ++t) {
            a[c][t] = subgroupBroadcast(words[c], 8 * p + t);
          }
          a_scales[c] = subgroupBroadcast(scales[c], 8 * p);
          a_sums[c] = ivec2(subgroupBroadcast(run_sums[c], 8 * p),
                            subgroupBroadcast(run_sums[c], 8 * p + 4));
        }
        [[unroll]] for (uint r = 0; r < kWeights * kRows; ++r) {
          int q[8];
          vec2 scale;
          vec2 least;
          levels(row[r], i + p, q, scale, least);
          [[unroll]] for (uint c = 0; c < kColumns; ++c) {
            sum[r * kColumns + c] +=
                piece_product(q, scale, least, a[c], a_scales[c], a_sums[c]);
          }
        }
      }
#elif BLOCK == 1
      // One element after the other: the loads of a piece at once are more than some compilers bear.
      float a[kColumns][4];
      [[unroll]] for (uint c = 0; c < kColumns; ++c) load(x_at[c], i, lane, depth - 1, a[c]);
      [[unroll]] for (uint j = 0; j * kLanes < 32; ++j) {
        [[dont_unroll]] for (uint t = 0; t < min(kLanes, 32); ++t) {
          const uint at_k = i * kPiece + j * kLanes + t;
          float w[kWeights * kRows];
          [[unroll]] for (uint r = 0; r < kWeights * kRows; ++r) {
            w[r] = at_k < depth ? decode_one(row[r], min(at_k, depth - 1)) : 0.0;
          }
          [[unroll]] for (uint c = 0; c < kColumns; ++c) {
            const float value = subgroupBroadcast(a[c][j], t);
            [[unroll]] for (uint r = 0; r < kWeights * kRows; ++r) {
              sum[r * kColumns + c] = fma(w[r], value, sum[r * kColumns + c]);
            }
          }
        }
      }
#else
      vec2 a[kColumns][16];
      [[unroll]] for (uint c = 0; c < kColumns; ++c) load(x_at[c], i, lane, a[c]);
      [[unroll]] for (uint r = 0; r < kWeights * kRows; ++r) {
        float v[32];
        decode(row[r], i, v);
        [[unroll]] for (uint c = 0; c < kColumns; ++c) {
          [[unroll]] for (uint p = 0; p < 16; ++p) {
            sum[r * kColumns + c] = fma(v[2 * p], a[c][p].x, sum[r * kColumns + c]);
            sum[r * kColumns + c] = fma(v[2 * p + 1], a[c][p].y, sum[r * kColumns + c]);
          }
        }
      }
#endif
    }
    if (kParts > 1) {
      barrier();
      [[unroll]] for (uint s = 0; s < kSumsOfLane; ++s) {
        parts[(part * kSumsOfLane + s) * kLanes + lane] = sum[s];
      }
      barrier();
      if (part > 0) continue;
      [[unroll]] for (uint s = 0; s < kSumsOfLane; ++s) {
        for (uint other = 1; other < kParts; ++other) {
          sum[s] += parts[(other * kSumsOfLane + s) * kLanes + lane];
        }
      }
    }
    const Strides y_strides = weights.v[which].y_strides;
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      const uint result = first_row + r * kLanes;
      if (result >= n) break;
      [[unroll]] for (uint c = 0; c < kColumns; ++c) {
        const uint column = first_column + c;
        if (column >= count) break;
        precise float all = finished(which, sum[r * kColumns + c], matrix, result);
        if (kAfter == 1) {
          const uint from = at(weights.v[which].residual_strides, place, column) + result;
          const precise float scaled = weights.v[which].factor * all;
          all = F32(weights.v[which].residual).v[from] + scaled;
        }
        if (kAfter >= 2) {
          const float up =
              finished(which + 1, sum[(kRows + r) * kColumns + c], matrix, result);
          all = activated(kAfter - 2, alpha, limit, all, up);
        }
        F32(weights.v[which].y).v[at(y_strides, place, column) + result] = all;
      }
    }
  }
}
