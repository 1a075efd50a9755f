// Products of a weight matrix with many columns: a workgroup computes 128 rows for 32 columns. Piece
// after piece of K, each lane decodes a row's piece into shared memory, once for all columns, and
// multiplies 8 rows with 4 columns. Sums have the order of product.comp, stretch by stretch of K, so
// that a row's result has the same bits by either.
#include "backends/vulkan/glsl/product.glsl"

const uint kTileRows = 128;  // and lanes
const uint kTileColumns = 32;
const uint kOwnRows = 8;
const uint kOwnColumns = 4;
const uint kOwn = kOwnRows * kOwnColumns;

#ifdef INTEGER
shared int row_words[8 * kTileRows];
shared vec2 row_scales[kTileRows];
shared vec2 row_least[kTileRows];
shared int column_words[8 * kTileColumns];
shared float column_scales[kTileColumns];
shared ivec2 column_sums[kTileColumns];
#else
shared float row_values[32 * kTileRows];
shared float column_values[32 * kTileColumns];
#endif

// The piece of a row into shared memory.
void put_row(Row row, uint i, uint lane) {
#ifdef INTEGER
  int q[8];
  vec2 scale;
  vec2 least;
  levels(row, i, q, scale, least);
  [[unroll]] for (uint t = 0; t < 8; ++t) row_words[t * kTileRows + lane] = q[t];
  row_scales[lane] = scale;
  row_least[lane] = least;
#else
  float v[32];
  decode(row, i, v);
  [[unroll]] for (uint t = 0; t < 32; ++t) {
#if BLOCK == 1
    if (i * kPiece + t >= elements_of_row) v[t] = 0;
#endif
    row_values[t * kTileRows + lane] = v[t];
  }
#endif
}

// Word t of the piece of a column, or four of its values.
void put_column(uint64_t from, uint i, uint t, uint column) {
#ifdef INTEGER
  int word;
  float scale;
  int sum;
  quantise(from, i, t, word, scale, sum);
  column_words[t * kTileColumns + column] = word;
  if (t == 0) column_scales[column] = scale;
  if (t % 4 == 0) column_sums[column][t / 4] = sum;
#elif BLOCK == 1
  [[unroll]] for (uint e = 0; e < 4; ++e) {
    const uint place = min(i * kPiece + 4 * t + e, elements_of_row - 1);
    column_values[(4 * t + e) * kTileColumns + column] = activation(from, place);
  }
#else
  const uvec2 run = runs(i);
  const vec4 x = four_at(from, t < 4 ? run.x + 4 * t : run.y + 4 * t - 16);
  [[unroll]] for (uint e = 0; e < 4; ++e) {
    column_values[(4 * t + e) * kTileColumns + column] = x[e];
  }
#endif
}

void main() {
  elements_of_row = k;
  tables = step.tables;
  const uint lane = gl_LocalInvocationIndex;
  const Columns columns = columns_of(kTileColumns);
  if (columns.count == 0) return;
  const uint tile = gl_WorkGroupID.x;
  uint which = 0;
  while (which + 1 < weight_count && tile >= weights.v[which + 1].first_tile) ++which;
  const Matrix of = weights.v[which];
  const uint n = of.n;
  const uint first_row = (tile - of.first_tile) * kTileRows;
  const Planes planes = Planes(of.w, of.planes);
  const Row row = row_at(planes, k, n, columns.matrix, min(first_row + lane, n - 1));
  const uint own_row = lane % 16 * kOwnRows;
  const uint own_column = lane / 16 * kOwnColumns;

  // The columns whose pieces this lane brings, one in each round.
  const uint kRounds = kTileColumns * 8 / kTileRows;
  uint64_t x_at[kRounds];
  [[unroll]] for (uint j = 0; j < kRounds; ++j) {
    const uvec2 column = column_of(columns, (lane + j * kTileRows) / 8);
    x_at[j] = uint64_t(x) + uint64_t(at(x_strides, column.x, column.y)) * 4;
  }
  const uint pieces = (k + kPiece - 1) / kPiece;
  const uint stretch = (pieces + kParts - 1) / kParts;
  precise float total[kOwn];
  for (uint part = 0; part < kParts; ++part) {
    precise float sum[kOwn];
    [[unroll]] for (uint o = 0; o < kOwn; ++o) sum[o] = 0;
    const uint end = min((part + 1) * stretch, pieces);
    [[dont_unroll]] for (uint i = part * stretch; i < end; ++i) {
      barrier();
      put_row(row, i, lane);
      [[unroll]] for (uint j = 0; j < kRounds; ++j) {
        put_column(x_at[j], i, lane % 8, (lane + j * kTileRows) / 8);
      }
      barrier();
#ifdef INTEGER
      ivec2 sums[kOwn];
      [[unroll]] for (uint o = 0; o < kOwn; ++o) sums[o] = ivec2(0);
      [[unroll]] for (uint t = 0; t < 8; ++t) {
        int a[kOwnColumns];
        [[unroll]] for (uint c = 0; c < kOwnColumns; ++c) {
          a[c] = column_words[t * kTileColumns + own_column + c];
        }
        [[unroll]] for (uint r = 0; r < kOwnRows; ++r) {
          const int q = row_words[t * kTileRows + own_row + r];
          [[unroll]] for (uint c = 0; c < kOwnColumns; ++c) {
            sums[r * kOwnColumns + c][t / 4] += dot4(q, a[c]);
          }
        }
      }
      [[unroll]] for (uint c = 0; c < kOwnColumns; ++c) {
        const float a_scale = column_scales[own_column + c];
        const ivec2 a_sums = column_sums[own_column + c];
        [[unroll]] for (uint r = 0; r < kOwnRows; ++r) {
          const uint o = r * kOwnColumns + c;
          sum[o] = with_piece(sum[o], sums[o], row_scales[own_row + r], row_least[own_row + r],
                              a_scale, a_sums);
        }
      }
#else
      [[dont_unroll]] for (uint t = 0; t < 32; ++t) {
        float a[kOwnColumns];
        [[unroll]] for (uint c = 0; c < kOwnColumns; ++c) {
          a[c] = column_values[t * kTileColumns + own_column + c];
        }
        [[unroll]] for (uint r = 0; r < kOwnRows; ++r) {
          const float w = row_values[t * kTileRows + own_row + r];
          [[unroll]] for (uint c = 0; c < kOwnColumns; ++c) {
            const uint o = r * kOwnColumns + c;
            sum[o] = fma(w, a[c], sum[o]);
          }
        }
      }
#endif
    }
    [[unroll]] for (uint o = 0; o < kOwn; ++o) total[o] = part == 0 ? sum[o] : total[o] + sum[o];
  }
  [[unroll]] for (uint r = 0; r < kOwnRows; ++r) {
    const uint result = first_row + own_row + r;
    [[unroll]] for (uint c = 0; c < kOwnColumns; ++c) {
      if (result < n && own_column + c < columns.count) {
        finish(of, of, total[r * kOwnColumns + c], 0.0, columns.matrix,
               column_of(columns, own_column + c), result);
      }
    }
  }
}
