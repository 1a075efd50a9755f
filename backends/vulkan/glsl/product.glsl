// What the shaders of products share: constants (product.def), push constants (product_push.h),
// columns of activations and their rounding, what is done with a sum.
#include "backends/vulkan/glsl/activation.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#ifdef INTEGER
#include "backends/vulkan/glsl/bytes.glsl"
#include "backends/vulkan/glsl/dot.glsl"
#ifndef OFFSET
#define OFFSET 0
#endif
#endif

#define WORKGROUP_SIZE(id, field, value) layout(local_size_x_id = id) in;
#include "backends/vulkan/glsl/constants.glsl"
#include "backends/vulkan/glsl/product.def"

#include "backends/vulkan/glsl/codebook.glsl"

const uint kWeights = kAfter >= 2 ? 2 : 1;  // that a lane has rows of
const uint kSumsOfLane = kWeights * kRows * kColumns;

// product_push.h: MatrixPush
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

shared float normed[kNormed];

// Columns that are computed together: `count` of them.
struct Columns {
  uint matrix, count;
  uint place, first;  // of neighbours
  uint list;          // of grouped ones, where in ids: place and column of each
};

// None: count 0.
Columns columns_of(uint most) {
  Columns of = Columns(0, 0, gl_WorkGroupID.z, gl_WorkGroupID.y * most, 0);
  if (kMatrix == 3) {
    if (gl_WorkGroupID.y >= uint(ids.v[0])) return of;
    const uint group = 4 + gl_WorkGroupID.y * 4;
    of.matrix = uint(ids.v[group]);
    of.list = uint(ids.v[group + 1]);
    of.count = uint(ids.v[group + 2]);
    return of;
  }
  const uint all = step.rows[rows];
  if (of.first < all) of.count = min(all - of.first, most);
  if (kMatrix == 1 && of.count > 0) {
    of.matrix = min(uint(ids.v[of.first * ids_stride + of.place]), matrices - 1);
  }
  if (kMatrix == 2) of.matrix = of.place;
  return of;
}

// Place and column of the c-th one; beyond the end those of the last.
uvec2 column_of(Columns of, uint c) {
  c = min(c, of.count - 1);
  if (kMatrix != 3) return uvec2(of.place, of.first + c);
  return uvec2(ids.v[of.list + 2 * c], ids.v[of.list + 2 * c + 1]);
}

#ifdef INTEGER
const bool kRounded = TILED || kColumns > 1;  // by ops/to_bytes.comp
#endif

// Where a column of activations begins; its strides count floats, or pieces where they are rounded.
uint64_t column_at(uvec2 column) {
  const uint64_t begin = at(x_strides, column.x, column.y);
#ifdef INTEGER
  if (kRounded) return uint64_t(x) + begin * kBytePiece;
#endif
  return uint64_t(x) + begin * 4;
}

// Columns, by address or in shared memory.
float activation(uint64_t from, uint i) { return kNorm != 0 ? normed[i] : F32(from).v[i]; }

// Elements i to i + 1, and to i + 3. Beyond the end of a column, where weights are zero, nothing may be
// read: the last elements stand there again, if whole quads have no others among them (kAligned).
uint64_t pair_at(uint64_t from, uint i) {
#ifdef RAGGED
  if (kAligned == 0) {
    const float first = i < elements_of_row ? activation(from, i) : 0.0;
    const float second = i + 1 < elements_of_row ? activation(from, i + 1) : 0.0;
    return packUint2x32(floatBitsToUint(vec2(first, second)));
  }
  i = min(i, elements_of_row - 2);
#endif
  if (kNorm != 0) return packUint2x32(floatBitsToUint(vec2(normed[i], normed[i + 1])));
  if (kAligned != 0) return Pair(from + uint64_t(i) * 4).v;  // i is even
  return packUint2x32(floatBitsToUint(vec2(F32(from).v[i], F32(from).v[i + 1])));
}

vec4 four_at(uint64_t from, uint i) {
#ifdef RAGGED
  if (kAligned == 0) {
    vec4 some = vec4(0);
    [[unroll]] for (uint t = 0; t < 4; ++t) {
      if (i + t < elements_of_row) some[t] = activation(from, i + t);
    }
    return some;
  }
  i = min(i, elements_of_row - 4);
#endif
  if (kNorm != 0) return vec4(normed[i], normed[i + 1], normed[i + 2], normed[i + 3]);
  if (kAligned != 0) return F32x4(from + uint64_t(i) * 4).v;
  F32 at = F32(from + uint64_t(i) * 4);
  return vec4(at.v[0], at.v[1], at.v[2], at.v[3]);
}

#ifdef INTEGER
// The products of the levels of a row and a column begin with this, so that OFFSET needs no more work.
ivec2 first_sums(int first_sum, int second_sum) {
#ifdef SINGLE
  return ivec2(-OFFSET * (first_sum + second_sum), 0);
#else
  return -OFFSET * ivec2(first_sum, second_sum);
#endif
}

// Of word t of both.
void add_products(inout ivec2 sums, uint t, uint levels, int q) {
#ifdef SINGLE
  sums.x += dot4(int(levels), q);
#else
  if (t < 4) {
    sums.x += dot4(int(levels), q);
  } else {
    sums.y += dot4(int(levels), q);
  }
#endif
}

// With the product of a piece of a row and that of a column added. Multiplications before additions
// are spelt out as fma here and below: `precise` alone does not keep them apart, for the optimiser of
// shaders loses it where it unrolls loops.
float with_piece(float sum, ivec2 sums, vec2 scale, vec2 least, float a_scale, vec2 a_sums) {
  precise float all = scale.x * float(sums.x);
#ifdef SINGLE
#ifdef LEAST
  all = fma(-least.x, a_sums.x + a_sums.y, all);
#endif
#else
  all = fma(scale.y, float(sums.y), all);
#ifdef LEAST
  all = fma(-least.x, a_sums.x, all);
  all = fma(-least.y, a_sums.y, all);
#endif
#endif
  return fma(all, a_scale, sum);
}
#endif

// The sum of a row, with the scale and bias of its matrix. Where there is none something else is
// read: some drivers load before they look at a condition.
float finished(Matrix of, float sum, uint matrix, uint result) {
  const uint64_t scale = of.scale != 0 ? of.scale + matrix * 4 : uint64_t(step);
  const uint64_t bias = of.bias != 0 ? of.bias + (matrix * of.n + result) * 4 : uint64_t(step);
  const float factor = F32(scale).v[0];
  const float summand = F32(bias).v[0];
  return fma(sum, of.scale != 0 ? factor : 1.0, of.bias != 0 ? summand : -0.0);
}

// Puts a result in its place, with what follows it. `second` and `up`: the weight of the other
// factor of an activation and its sum. `column`: its place and itself. Weights are read once by the
// caller: some drivers would read them again for every result.
void finish(Matrix of, Matrix second, float sum, float up, uint matrix, uvec2 column, uint result) {
  precise float all = finished(of, sum, matrix, result);
  if (kAfter == 1) {
    const uint from = at(of.residual_strides, column.x, column.y) + result;
    all = fma(of.factor, all, F32(of.residual).v[from]);
  }
  if (kAfter >= 2) {
    all = activated(kAfter - 2, alpha, limit, all, finished(second, up, matrix, result));
  }
  F32(of.y).v[at(of.y_strides, column.x, column.y) + result] = all;
}
