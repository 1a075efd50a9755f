// Products of a weight matrix with columns of activations by cooperative matrices: the class of
// prompts (tuning.h). A workgroup computes kTileRows rows for kTileColumns columns, each of its
// subgroups kOwnRows × kOwnColumns matrices of them. A step of K is a piece. While the matrices of one
// step are multiplied the next one is loaded; it is then stored beside it in shared memory as float16.
// Loops around the sums are short ones: a driver keeps sums in registers only if it unrolls them all.
// kShare lanes share a row's piece; the columns are float16 already (ops/to_half.comp). A result is
// summed along K in steps of the device's matrices, in one order for all columns. Within each four
// neighbours along K, rows and columns have the order 0, 2, 1, 3: that of the bytes of a word, in pairs.
//
// Values beyond float16: every row's weights are divided by a power of two that its first piece
// suggests. Where a later piece overflows all is computed again, with a greater power for its row. Every
// column has a power of its own. Neither depends on what else is computed.
#define TILED true
#include "backends/vulkan/glsl/product.glsl"

const uint kOwnWords = 8 / kShare;  // of a lane in a step, four values each
const uint kStride = 5;             // in units of 16 bytes: rows of 64 begin at different banks
const uint kColumnsAt = kTileRows * kStride;
const uint kStep = kColumnsAt + kTileColumns * kStride;
const uint kOwn = kOwnRows * kOwnColumns;
const uint kQuads = kMatrixM * kMatrixN / 4;  // of results
const uint kLanesOfAll = kTileRows * kShare;
const uint kLoads = kTileColumns * 4 / kLanesOfAll;  // of columns, by a lane in a step
const uint kSubgroupsDown = kTileRows / (kMatrixM * kOwnRows);
const uint kRowsOfWeight = kTileRows / kWeights;  // a gate's come first, then its partner's
const uint kSubgroups = kLanesOfAll / kLanes;
// Exponents: that of the first piece's largest weight gets the usual one; none may exceed the most.
const int kUsual = 2;
const int kMost = 14;
const int kLeast = -112;  // a float32 has the inverse of this power and that of the greatest

// First in shared memory, so that they begin at 16 bytes. Two steps: rows, then columns.
shared uvec4 tiles_of[2 * kStep];
shared int shifts[kTileRows];  // the exponents of the rows' powers of two
shared uint raised;            // whether a row needs a greater power
MatrixSum sum[kOwn];           // of the subgroup

float power_of_two(int e) { return intBitsToFloat((e + 127) << 23); }

// Of a magnitude's bits; infinities and NaNs stay what they are, whatever divides them.
int exponent_of(uint magnitude) { return min(int(magnitude >> 23) - 127, 127); }

uint magnitude_of(float x) { return floatBitsToUint(x) & 0x7fffffffu; }

// What a lane takes of a row's piece.
#ifdef LEVELS
struct Part {
  uint q[8];          // kOwnWords words of four levels, or of codes in the lower bits of bytes
  vec2 scale, least;  // of the piece's halves
};

Part part_of(Row row, uint i, uint own) {
  Part part;
  uint q[8];
  levels(row, i, q, part.scale, part.least);
#ifdef CODES
  [[unroll]] for (uint w = 4; w < 8; ++w) q[w] >>= 4;
#endif
  [[unroll]] for (uint w = 0; w < kOwnWords; ++w) {
    part.q[w] = q[w];
    [[unroll]] for (uint s = 1; s < kShare; ++s) {
      if (own == s) part.q[w] = q[w + s * kOwnWords];
    }
  }
  return part;
}

// What no weight of the piece exceeds.
uint largest_of(Part part) {
#if defined(SIGNED) || defined(CODES)
  const float most = 128;
#elif defined(LEAST)
  const float most = 31;  // levels of at most 5 bits
#else
  const float most = OFFSET;
#endif
  uint largest = max(magnitude_of(most * part.scale.x), magnitude_of(most * part.scale.y));
#ifdef LEAST
  const uint least = max(magnitude_of(part.least.x), magnitude_of(part.least.y));
  largest = magnitude_of(uintBitsToFloat(largest) + uintBitsToFloat(least));
#endif
  return largest;
}

#ifndef CODES
// Bytes t and t + 2 of a word of levels, without their offset: by its bits 1024 and a byte is a float16.
f16vec2 pair_of(uint word, uint t) {
#ifdef SIGNED
  const uint bits = ((word >> (8 * t)) & 0x00ff00ffu) ^ 0x64806480u;
  const float offset = 1024 + 128;
#else
  const uint bits = ((word >> (8 * t)) & 0x00ff00ffu) | 0x64006400u;
  const float offset = 1024 + OFFSET;
#endif
  return unpackFloat2x16(bits) - f16vec2(to_half(offset));
}
#endif

// Word w of the lane's part, four weights with a power of two.
uvec2 halves_of(Part part, uint own, uint w, float factor) {
  const bool second = kShare == 1 ? w >= 4 : own >= kShare / 2;
  const float own_scale = (second ? part.scale.y : part.scale.x) * factor;
#ifdef CODES
  f16vec4 v;
  [[unroll]] for (uint t = 0; t < 4; ++t) {
    v[t] = to_half(own_scale * codebook((part.q[w] >> (8 * t)) & 15));
  }
  return uvec2(packFloat2x16(v.xz), packFloat2x16(v.yw));
#else
  const f16vec2 scale = f16vec2(to_half(own_scale));
#ifdef LEAST
  const f16vec2 least = f16vec2(to_half((second ? part.least.y : part.least.x) * factor));
  return uvec2(packFloat2x16(fma(pair_of(part.q[w], 0), scale, -least)),
               packFloat2x16(fma(pair_of(part.q[w], 1), scale, -least)));
#else
  return uvec2(packFloat2x16(pair_of(part.q[w], 0) * scale),
               packFloat2x16(pair_of(part.q[w], 1) * scale));
#endif
#endif
}
#else
struct Part {
  float v[32];
};

Part part_of(Row row, uint i, uint own) {
  Part part;
  decode(row, i, part.v);
#if BLOCK == 1
  [[unroll]] for (uint t = 0; t < 32; ++t) {
    if (i * kPiece + t >= elements_of_row) part.v[t] = 0;
  }
#endif
  return part;
}

uint largest_of(Part part) {
  uint largest = 0;
  [[unroll]] for (uint t = 0; t < 32; ++t) largest = max(largest, magnitude_of(part.v[t]));
  return largest;
}

uvec2 halves_of(Part part, uint own, uint w, float factor) {
  f16vec4 v;
  [[unroll]] for (uint t = 0; t < 4; ++t) {
    float x = part.v[4 * w + t];
    [[unroll]] for (uint s = 1; s < kShare; ++s) {
      if (own == s) x = part.v[4 * (w + s * kOwnWords) + t];
    }
    v[t] = to_half(x * factor);
  }
  return uvec2(packFloat2x16(v.xz), packFloat2x16(v.yw));
}
#endif

// Stores the lane's part of a row.
void put_part(Part part, uint own, uint row, uint step_at, int shift) {
  const float factor = power_of_two(-shift);
  [[unroll]] for (uint w = 0; w < kOwnWords; w += 2) {
    tiles_of[step_at + row * kStride + own * (kOwnWords / 2) + w / 2] =
        uvec4(halves_of(part, own, w, factor), halves_of(part, own, w + 1, factor));
  }
}

// Where a result's partner is: so many quads and rows behind.
const uint kPartnerRows = kTileRows - kRowsOfWeight;
const uint kPartner = kPartnerRows / kMatrixM * kQuads;

// x · 2^by
float scaled(float x, int by) {
  precise float all = x * power_of_two(by / 2);
  all *= power_of_two(by - by / 2);
  return all;
}

// Puts the sums in their places, a matrix's width of each subgroup's columns at a time: quad q of a
// matrix is then results 4q to 4q + 3 of it column by column.
void put_sums(uint which, uint first_row, uint first_column, uint count) {
  const Matrix of = weights.v[which];
  const Matrix second = weights.v[which + kWeights - 1];
  [[dont_unroll]] for (uint pass = 0; pass < kOwnColumns; ++pass) {
    barrier();
    [[unroll]] for (uint o = 0; o < kOwn; ++o) {
      if (o % kOwnColumns == pass) {
        store_sum(tiles_of[(gl_SubgroupID * kOwnRows + o / kOwnColumns) * kQuads], sum[o],
                  kColumnMajor, kMatrixM / 4, MAKE_AVAILABLE, kWorkgroupScope);
      }
    }
    barrier();
    [[dont_unroll]] for (uint i = gl_LocalInvocationIndex; i < kSubgroups * kOwnRows * kQuads;
                         i += kLanesOfAll) {
      const uint subgroup = i / kQuads / kOwnRows;
      const uint q = i % kQuads;
      const uint row = (subgroup % kSubgroupsDown * kOwnRows + i / kQuads % kOwnRows) * kMatrixM +
                       q % (kMatrixM / 4) * 4;
      const uint column = first_column +
                          (subgroup / kSubgroupsDown * kOwnColumns + pass) * kMatrixN +
                          q / (kMatrixM / 4);
      if (row >= kRowsOfWeight || column >= count) continue;
      const int of_column = int(floatBitsToUint(norm.v[column]) >> 23) - 127;
      const vec4 results = uintBitsToFloat(tiles_of[i]);
      const vec4 up = uintBitsToFloat(tiles_of[i + kPartner]);
      [[unroll]] for (uint t = 0; t < 4; ++t) {
        const uint result = first_row + row + t;
        if (result >= of.n) break;
        finish(of, second, scaled(results[t], shifts[row + t] + of_column),
               kWeights > 1 ? scaled(up[t], shifts[row + t + kPartnerRows] + of_column) : 0.0, 0,
               uvec2(0, column), result);
      }
    }
  }
}

void main() {
  elements_of_row = k;
  tables = step.tables;
  const uint lane = gl_LocalInvocationIndex;
  const uint count = step.rows[0];
  const uint first_column = step.rows[2] + gl_WorkGroupID.y * kTileColumns;
  if (first_column >= count) return;
  load_codebook();
  const uint tile = gl_WorkGroupID.x;
  uint which = 0;
  while (which + 1 < weight_count && tile >= weights.v[which + 1].first_tile) ++which;
  const uint n = weights.v[which].n;
  const uint first_row = (tile - weights.v[which].first_tile) * kRowsOfWeight;
  const uint own_row = lane / kShare;
  const uint own = lane % kShare;
  const uint own_weight = which + own_row / kRowsOfWeight;
  const Row row = row_at(Planes(weights.v[own_weight].w, weights.v[own_weight].planes), k, n, 0,
                         min(first_row + own_row % kRowsOfWeight, n - 1));
  const uint pieces = (k + kPiece - 1) / kPiece;

  const uint down = gl_SubgroupID % kSubgroupsDown * (kMatrixM * kOwnRows);
  const uint across = gl_SubgroupID / kSubgroupsDown * (kMatrixN * kOwnColumns);

  uint64_t column_from[kLoads];
  uint column_to[kLoads];
  [[unroll]] for (uint l = 0; l < kLoads; ++l) {
    const uint quad = lane + l * kLanesOfAll;
    const uint column = min(first_column + quad / 4, count - 1);
    column_from[l] = uint64_t(x) + column * x_strides.stride2 * 2 + quad % 4 * 16;
    column_to[l] = kColumnsAt + quad / 4 * kStride + quad % 4;
  }

  Part part = part_of(row, 0, own);
  int largest = exponent_of(largest_of(part));
  int shift = max(largest - kUsual, kLeast);
  bool again = false;
  [[dont_unroll]] do {
    [[unroll]] for (uint o = 0; o < kOwn; ++o) sum[o] = filled(0.0);
    if (lane == 0) raised = 0;
    if (again) part = part_of(row, 0, own);
    put_part(part, own, own_row, 0, shift);
    [[unroll]] for (uint l = 0; l < kLoads; ++l) {
      tiles_of[column_to[l]] = Eight(column_from[l]).v;
    }
    [[dont_unroll]] for (uint i = 0; i < pieces; ++i) {
      const uint at = i % 2 * kStep;
      const uint other = kStep - at;
      const uint next = min(i + 1, pieces - 1);
      barrier();
      uvec4 columns[kLoads];
      [[unroll]] for (uint l = 0; l < kLoads; ++l) {
        columns[l] = Eight(column_from[l] + next * 2 * kPiece).v;
      }
      part = part_of(row, next, own);
      [[unroll]] for (uint s = 0; s < 4; s += kMatrixK / 8) {
        MatrixA a[kOwnRows];
        [[unroll]] for (uint r = 0; r < kOwnRows; ++r) {
          a[r] = load_a(tiles_of[at + (down + r * kMatrixM) * kStride + s], kRowMajor, kStride,
                        MAKE_VISIBLE, kWorkgroupScope);
        }
        [[unroll]] for (uint c = 0; c < kOwnColumns; ++c) {
          const MatrixB b = load_b(tiles_of[at + kColumnsAt + (across + c * kMatrixN) * kStride + s],
                                   kColumnMajor, kStride, MAKE_VISIBLE, kWorkgroupScope);
          [[unroll]] for (uint r = 0; r < kOwnRows; ++r) {
            sum[r * kOwnColumns + c] = multiply_add(a[r], b, sum[r * kOwnColumns + c]);
          }
        }
      }
      largest = max(largest, exponent_of(largest_of(part)));
      put_part(part, own, own_row, other, shift);
      [[unroll]] for (uint l = 0; l < kLoads; ++l) tiles_of[other + column_to[l]] = columns[l];
    }
    if (largest - kMost > shift) {
      shift = largest - kUsual;
      raised = 1;
    }
    barrier();
    again = subgroupBroadcastFirst(raised) != 0;
    barrier();
  } while (again);
  if (own == 0) shifts[own_row] = shift;
  put_sums(which, first_row, first_column, count);
}
