// Products of a weight matrix with columns of activations by cooperative matrices: the class of
// prompts (tuning.h). A workgroup computes kTileRows rows for kTileColumns columns, each of its
// subgroups kOwnRows × kOwnColumns matrices of them. Step after step of K, each lane decodes a piece
// of a row into shared memory as float16; the columns are float16 already (ops/to_half.comp). A
// result is summed along K in steps of the device's matrices, in one order for all columns.
//
// Values beyond float16: every row's weights are divided by a power of two that its first piece
// suggests. Where a later piece would overflow it is raised, and the row's sums with it. Every
// column has one of its own. Neither depends on what else is computed.
#define TILED true
#include "backends/vulkan/glsl/product.glsl"

const uint kQuads = kPieces * 8;     // of a row or a column in a step, four values each
const uint kStride = kQuads + 2;     // in quads: rows of 16 bytes begin at different banks
const uint kOwn = kOwnRows * kOwnColumns;
const uint kElements = kMatrixM * kMatrixN;
// Exponents: of the largest weight of a piece that suggests a row's power, and of those that raise it.
const int kUsual = 8;
const int kMost = 14;

shared f16vec4 row_values[kTileRows * kStride];
shared f16vec4 column_values[kTileColumns * kStride];
shared float staged[(kTileRows * kTileColumns) / kOwn];  // a matrix of each subgroup
shared int shifts[kTileRows];  // the exponents of the rows' powers of two
shared int applied[kTileRows];  // those that the sums have
shared uint raised;

layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Halves { uvec4 v; };

float power_of_two(int e) { return intBitsToFloat((e + 127) << 23); }

// That of the largest magnitude; infinities and NaNs stay what they are, whatever divides them.
int exponent_of(float v[32]) {
  uint largest = 0;
  [[unroll]] for (uint t = 0; t < 32; ++t) {
    largest = max(largest, floatBitsToUint(v[t]) & 0x7fffffffu);
  }
  return min(int(largest >> 23) - 127, 127);
}

f16vec4 halves_of(uvec2 words) {
  return f16vec4(unpackFloat2x16(words.x), unpackFloat2x16(words.y));
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
  const Matrix of = weights.v[which];
  const uint n = of.n;
  const uint first_row = (tile - of.first_tile) * kTileRows;
  const uint own_row = lane % kTileRows;
  const uint own_piece = lane / kTileRows;
  const Row row = row_at(Planes(of.w, of.planes), k, n, 0, min(first_row + own_row, n - 1));
  const uint pieces = (k + kPiece - 1) / kPiece;

  const uint subgroups_down = kTileRows / (kMatrixM * kOwnRows);
  const uint down = gl_SubgroupID % subgroups_down * (kMatrixM * kOwnRows);
  const uint across = gl_SubgroupID / subgroups_down * (kMatrixN * kOwnColumns);

  MatrixSum sum[kOwn];
  [[unroll]] for (uint o = 0; o < kOwn; ++o) sum[o] = filled(0.0);
  const uint stage = gl_SubgroupID * kElements;
  const int kLeast = -112;  // a float32 has the inverse of this power and that of the greatest
  int shift = kLeast;
  if (lane < kTileRows) shifts[lane] = applied[lane] = shift;
  if (lane == 0) raised = 0;
  barrier();
  [[dont_unroll]] for (uint i = 0; i < pieces; i += kPieces) {
    float v[32];
    if (i + own_piece < pieces) {
      decode(row, i + own_piece, v);
#if BLOCK == 1
      [[unroll]] for (uint t = 0; t < 32; ++t) {
        if ((i + own_piece) * kPiece + t >= elements_of_row) v[t] = 0;
      }
#endif
    } else {
      [[unroll]] for (uint t = 0; t < 32; ++t) v[t] = 0;
    }
    const int exponent = exponent_of(v);
    if (exponent - (i == 0 ? kUsual : kMost) > shift) {
      atomicMax(shifts[own_row], exponent - kUsual);
      atomicOr(raised, 1);
    }
    barrier();
    shift = shifts[own_row];
    if (raised != 0) {
      if (i > 0) {  // else there are no sums yet
        [[unroll]] for (uint o = 0; o < kOwn; ++o) {
          barrier();
          store_sum(staged[stage], sum[o], kColumnMajor, kMatrixM, MAKE_AVAILABLE, kWorkgroupScope);
          barrier();
          for (uint e = gl_SubgroupInvocationID; e < kElements; e += kLanes) {
            const uint of_row = down + o / kOwnColumns * kMatrixM + e % kMatrixM;
            const int by = applied[of_row] - shifts[of_row];  // down to -231: in two factors
            staged[stage + e] *= power_of_two(by / 2);
            staged[stage + e] *= power_of_two(by - by / 2);
          }
          barrier();
          sum[o] = load_sum(staged[stage], kColumnMajor, kMatrixM, MAKE_VISIBLE, kWorkgroupScope);
        }
      }
      barrier();
      if (lane < kTileRows) applied[lane] = shift;
      if (lane == 0) raised = 0;
    }
    const float factor = power_of_two(-shift);
    [[unroll]] for (uint q = 0; q < 8; ++q) {
      row_values[own_row * kStride + own_piece * 8 + q] =
          f16vec4(to_half(v[4 * q] * factor), to_half(v[4 * q + 1] * factor),
                  to_half(v[4 * q + 2] * factor), to_half(v[4 * q + 3] * factor));
    }
    for (uint e = lane; e < kTileColumns * kPieces * 4; e += gl_WorkGroupSize.x) {
      const uint part = e % (kPieces * 4);  // 8 values
      const uint column = e / (kPieces * 4);
      const uint from = i * kPiece + part * 8;
      const uint64_t at = uint64_t(x) +
                          (uint64_t(min(first_column + column, count - 1)) * x_strides.stride2 +
                           from) * 2;
      const uvec4 words = Halves(at).v;
      column_values[column * kStride + part * 2] = halves_of(words.xy);
      column_values[column * kStride + part * 2 + 1] = halves_of(words.zw);
    }
    barrier();
    [[unroll]] for (uint s = 0; s < kQuads; s += kMatrixK / 4) {
      MatrixB b[kOwnColumns];
      [[unroll]] for (uint c = 0; c < kOwnColumns; ++c) {
        b[c] = load_b(column_values[(across + c * kMatrixN) * kStride + s], kColumnMajor, kStride,
                      MAKE_VISIBLE, kWorkgroupScope);
      }
      [[unroll]] for (uint r = 0; r < kOwnRows; ++r) {
        const MatrixA a = load_a(row_values[(down + r * kMatrixM) * kStride + s], kRowMajor, kStride,
                                 MAKE_VISIBLE, kWorkgroupScope);
        [[unroll]] for (uint c = 0; c < kOwnColumns; ++c) {
          sum[r * kOwnColumns + c] = multiply_add(a, b[c], sum[r * kOwnColumns + c]);
        }
      }
    }
  }
  [[unroll]] for (uint r = 0; r < kOwnRows; ++r) {
    [[unroll]] for (uint c = 0; c < kOwnColumns; ++c) {
      barrier();
      store_sum(staged[stage], sum[r * kOwnColumns + c], kColumnMajor, kMatrixM, MAKE_AVAILABLE,
                kWorkgroupScope);
      barrier();
      for (uint e = gl_SubgroupInvocationID; e < kElements; e += kLanes) {
        const uint result = first_row + down + r * kMatrixM + e % kMatrixM;
        const uint column = first_column + across + c * kMatrixN + e / kMatrixM;
        if (result >= n || column >= count) continue;
        // norm: the powers of two that undo those of the columns.
        const int back = shifts[result - first_row] +
                         (int(floatBitsToUint(norm.v[column]) >> 23) - 127);
        precise float all = staged[stage + e] * power_of_two(back / 2);
        all *= power_of_two(back - back / 2);
        finish(of, of, all, 0.0, 0, uvec2(0, column), result);
      }
    }
  }
}
