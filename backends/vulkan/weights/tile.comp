// Products of a weight matrix with many columns: a workgroup computes 128 rows for 32 columns. Piece
// after piece of K, each lane decodes a row's piece into shared memory, once for all columns. Each
// subgroup multiplies all rows with columns of its own: a lane has every kLanes-th row, and all lanes
// have the same columns, which the subgroup can load as one. Sums have the order of product.comp,
// stretch by stretch of K, so that a row's result has the same bits by either.
#define TILED true
#include "backends/vulkan/glsl/product.glsl"

const uint kTileRows = 128;  // and lanes
const uint kTileColumns = 32;
const uint kOwnRows = kLanes < kTileRows ? kTileRows / kLanes : 1;
const uint kOwnColumns = kTileColumns / kOwnRows;
const uint kOwn = kOwnRows * kOwnColumns;

#ifdef INTEGER
// Two of each: the next piece is written while others still read this one.
shared uvec4 row_words[2][2][kTileRows];  // of both halves
shared vec2 row_scales[2][kTileRows];
#ifdef LEAST
shared vec2 row_least[2][kTileRows];
#endif
#else
const uint kTogether = 4;  // elements
shared vec4 row_values[kPiece / kTogether][kTileRows];
#endif

// The piece of a row into shared memory.
void put_row(Row row, uint i, uint lane, uint which) {
#ifdef INTEGER
  uint q[8];
  vec2 scale;
  vec2 least;
  levels(row, i, q, scale, least);
  row_words[which][0][lane] = uvec4(q[0], q[1], q[2], q[3]);
  row_words[which][1][lane] = uvec4(q[4], q[5], q[6], q[7]);
  row_scales[which][lane] = scale;
#ifdef LEAST
  row_least[which][lane] = least;
#endif
#else
  float v[32];
  decode(row, i, v);
#if BLOCK == 1
  [[unroll]] for (uint t = 0; t < 32; ++t) v[t] = i * kPiece + t < elements_of_row ? v[t] : 0.0;
#endif
  [[unroll]] for (uint t = 0; t < kPiece / kTogether; ++t) {
    row_values[t][lane] = vec4(v[4 * t], v[4 * t + 1], v[4 * t + 2], v[4 * t + 3]);
  }
#endif
}

#ifdef INTEGER
void multiply(uint64_t columns[kOwnColumns], uint i, uint which, uint lane,
              inout float sum[kOwn]) {
  uint q[kOwnRows][8];
  vec2 scale[kOwnRows];
  vec2 least[kOwnRows];
  [[unroll]] for (uint r = 0; r < kOwnRows; ++r) {
    const uint row = r * kLanes + lane;
    const uvec4 first = row_words[which][0][row];
    const uvec4 second = row_words[which][1][row];
    [[unroll]] for (uint t = 0; t < 4; ++t) {
      q[r][t] = first[t];
      q[r][t + 4] = second[t];
    }
    scale[r] = row_scales[which][row];
#ifdef LEAST
    least[r] = row_least[which][row];
#else
    least[r] = vec2(0);
#endif
  }
  [[unroll]] for (uint c = 0; c < kOwnColumns; ++c) {
    const BytePiece a = BytePieces(columns[c]).v[i];
    const ivec2 begin = first_sums(a.first_sum, a.second_sum);
    const vec2 a_sums = vec2(a.first_sum, a.second_sum);
    [[unroll]] for (uint r = 0; r < kOwnRows; ++r) {
      ivec2 sums = begin;
      [[unroll]] for (uint t = 0; t < 8; ++t) add_products(sums, t, q[r][t], a.q[t]);
      const uint o = r * kOwnColumns + c;
      sum[o] = with_piece(sum[o], sums, scale[r], least[r], a.scale, a_sums);
    }
  }
}
#else
void multiply(uint64_t columns[kOwnColumns], uint i, uint which, uint lane,
              inout float sum[kOwn]) {
  [[dont_unroll]] for (uint t = 0; t < kPiece / kTogether; ++t) {
    vec4 w[kOwnRows];
    [[unroll]] for (uint r = 0; r < kOwnRows; ++r) w[r] = row_values[t][r * kLanes + lane];
    [[unroll]] for (uint c = 0; c < kOwnColumns; ++c) {
      const vec4 a = four_at(columns[c], i * kPiece + kTogether * t);
      [[unroll]] for (uint r = 0; r < kOwnRows; ++r) {
        const uint o = r * kOwnColumns + c;
        [[unroll]] for (uint e = 0; e < kTogether; ++e) sum[o] = fma(w[r][e], a[e], sum[o]);
      }
    }
  }
}
#endif

void main() {
  elements_of_row = k;
  tables = step.tables;
  const uint of_workgroup = gl_LocalInvocationIndex;
  const uint lane = gl_SubgroupInvocationID;
  const Columns columns = columns_of(kTileColumns);
  if (columns.count == 0) return;
  load_codebook();
  const uint tile = gl_WorkGroupID.x;
  uint which = 0;
  while (which + 1 < weight_count && tile >= weights.v[which + 1].first_tile) ++which;
  const Matrix of = weights.v[which];
  const uint n = of.n;
  const uint first_row = (tile - of.first_tile) * kTileRows;
  const Planes planes = Planes(of.w, of.planes);
  const Row row = row_at(planes, k, n, columns.matrix, min(first_row + of_workgroup, n - 1));
  const uint own_column = gl_SubgroupID * kOwnColumns;
  uint64_t x_at[kOwnColumns];
  [[unroll]] for (uint c = 0; c < kOwnColumns; ++c) {
    x_at[c] = column_at(column_of(columns, own_column + c));
  }
  const uint pieces = (k + kPiece - 1) / kPiece;
  const uint stretch = (pieces + kParts - 1) / kParts;
  precise float total[kOwn];
  for (uint part = 0; part < kParts; ++part) {
    float sum[kOwn];
    [[unroll]] for (uint o = 0; o < kOwn; ++o) sum[o] = 0;
    const uint begin = part * stretch;
    const uint end = min(begin + stretch, pieces);
#ifdef INTEGER
    barrier();
    if (begin < end) put_row(row, begin, of_workgroup, begin % 2);
    [[dont_unroll]] for (uint i = begin; i < end; ++i) {
      barrier();
      multiply(x_at, i, i % 2, lane, sum);
      put_row(row, min(i + 1, end - 1), of_workgroup, (i + 1) % 2);
    }
#else
    [[dont_unroll]] for (uint i = begin; i < end; ++i) {
      barrier();
      put_row(row, i, of_workgroup, 0);
      barrier();
      multiply(x_at, i, 0, lane, sum);
    }
#endif
    [[unroll]] for (uint o = 0; o < kOwn; ++o) total[o] = part == 0 ? sum[o] : total[o] + sum[o];
  }
  [[unroll]] for (uint r = 0; r < kOwnRows; ++r) {
    const uint result = first_row + r * kLanes + lane;
    [[unroll]] for (uint c = 0; c < kOwnColumns; ++c) {
      if (result < n && own_column + c < columns.count) {
        finish(of, of, total[r * kOwnColumns + c], 0.0, columns.matrix,
               column_of(columns, own_column + c), result);
      }
    }
  }
}
