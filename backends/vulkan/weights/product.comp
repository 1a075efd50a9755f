// Products of weight matrices with columns of activations: matmul, moe_matmul and head_matmul, with
// what is fused into them (fusion.h). A lane computes kRows results of a matrix, or of a gate and its
// partner, for kColumns columns; the kParts subgroups of a workgroup have a stretch of K each. A
// stretch is summed element by element, then the stretches are added in their order: one order for a
// row, however many rows and columns there are. With INTEGER, for types that have levels
// (glsl/from_levels.glsl), activations are bytes: this shader rounds a single column, ops/to_bytes.comp
// rounds several.
#define TILED false
#include "backends/vulkan/glsl/product.glsl"
#define NORM_VALUE(i) normed[i]
#include "backends/vulkan/glsl/norm.glsl"
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_EXT_shader_subgroup_extended_types_int64 : require

#ifdef INTEGER
const uint kAhead = kWeights * kRows > 1 ? 2 : 4;  // pieces that are loaded together
// Pieces that a subgroup rounds together: a lane rounds four neighbours in each round.
const uint kRounds = 4;
const uint kAtOnce = kLanes / 8;
const uint kBlock = kRounds * kAtOnce;
const uint kPieceWords = kBytePiece / 16;
const uint kOfSubgroup = kBlock * kPieceWords > kLanes ? kBlock * kPieceWords : kLanes;
#else
const uint kOfSubgroup = kLanes;
#endif

// Of each subgroup: the activations that it rounds, then sums, four of a lane at a time.
shared uvec4 own_words[kParts * kOfSubgroup];

#ifdef INTEGER
// Some pieces of all rows, from `first` on. All loads come first, and wait for no branch: behind the end
// the last piece is read again. (No function: compilers do not pass arrays of such rows.)
#define LOAD_PIECES(first)                                                               \
  [[unroll]] for (uint p = 0; p < kAhead; ++p) {                                         \
    const uint piece = min(first + p, max(end_piece, 1) - 1);                            \
    [[unroll]] for (uint r = 0; r < kWeights * kRows; ++r) {                             \
      levels(row[r], piece, q[p][r], scale[p][r], least[p][r]);                          \
    }                                                                                    \
  }

// Rounds the pieces from `first` on, for piece_of.
void round_block(uint64_t from, uint first, uint last, uint part, uint lane) {
  vec4 values[kRounds];
  [[unroll]] for (uint j = 0; j < kRounds; ++j) {
    const uint piece = min(first + j * kAtOnce + lane / 8, last);
    values[j] = four_at(from, piece * kPiece + lane % 8 * 4);
  }
  subgroupBarrier();  // others may still read the block before
  [[unroll]] for (uint j = 0; j < kRounds; ++j) {
    int word;
    float scale;
    int sum;
    quantise(values[j], word, scale, sum);
    const int second_sum = subgroupShuffleXor(sum, 4);
    const uint to = part * kOfSubgroup + (j * kAtOnce + lane / 8) * kPieceWords;
    own_words[to + lane % 8 / 4][lane % 4] = uint(word);
    if (lane % 8 == 0) own_words[to + 2] = uvec4(floatBitsToUint(scale), sum, second_sum, 0);
  }
  subgroupBarrier();
}

BytePiece piece_of(uint part, uint i) {
  const uint at = part * kOfSubgroup + i * kPieceWords;
  const uvec4 first = own_words[at];
  const uvec4 second = own_words[at + 1];
  const uvec4 sums = own_words[at + 2];
  BytePiece a;
  [[unroll]] for (uint t = 0; t < 4; ++t) {
    a.q[t] = int(first[t]);
    a.q[t + 4] = int(second[t]);
  }
  a.scale = uintBitsToFloat(sums[0]);
  a.first_sum = int(sums[1]);
  a.second_sum = int(sums[2]);
  return a;
}
#endif

#ifndef INTEGER
#if BLOCK == 1
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
// The piece of a column, all of it in every lane, from where the lanes hand it round.
void load(uint64_t from, uint i, uint lane, out vec2 a[16]) {
  const uint first = i * kPiece;
  // 16 / kLanes pairs a lane (at least one): pair p is in lane p % kLanes.
  uint64_t own[2];
  [[unroll]] for (uint j = 0; j < 2; ++j) {
    own[j] = 0;
    if (j * kLanes >= 16) continue;
    const uint p = min(j * kLanes + lane, 15);
    own[j] = pair_at(from, first + 2 * p);
  }
  [[unroll]] for (uint p = 0; p < 16; ++p) {
    a[p] = uintBitsToFloat(unpackUint2x32(subgroupBroadcast(own[p / kLanes], p % kLanes)));
  }
}

float add_piece(float v[32], vec2 a[16], float sum) {
  precise float all = sum;
  [[unroll]] for (uint p = 0; p < 16; ++p) {
    all = fma(v[2 * p], a[p].x, all);
    all = fma(v[2 * p + 1], a[p].y, all);
  }
  return all;
}
#endif
#endif

// Weights of the norm from element `first` on, of every size-th one.
void norm_weights(uint first, out float weight[kTogether]) {
  [[unroll]] for (uint t = 0; t < kTogether; ++t) {
    weight[t] = kNorm == 2 ? norm.v[min(first + t * gl_WorkGroupSize.x, kNormed - 1)] : 1.0;
  }
}

void normalise(uint from) {
  const uint size = gl_WorkGroupSize.x;
  for (uint first = gl_LocalInvocationIndex; first < kNormed; first += kTogether * size) {
    float values[kTogether];
    [[unroll]] for (uint t = 0; t < kTogether; ++t) {
      values[t] = x.v[from + min(first + t * size, kNormed - 1)];
    }
    [[unroll]] for (uint t = 0; t < kTogether; ++t) {
      if (first + t * size < kNormed) normed[first + t * size] = values[t];
    }
  }
  float weight[kTogether];
  norm_weights(gl_LocalInvocationIndex, weight);  // they come while the factor is computed
  barrier();
  const float factor = norm_factor(kNormed, eps);
  for (uint first = gl_LocalInvocationIndex; first < kNormed; first += kTogether * size) {
    [[unroll]] for (uint t = 0; t < kTogether; ++t) {
      const uint i = first + t * size;
      if (i >= kNormed) break;
      const float value = normed_value(normed[i], factor);
      normed[i] = kNorm == 2 ? weighted_value(value, weight[t]) : value;
    }
    norm_weights(first + kTogether * size, weight);
  }
  barrier();
}

void main() {
  elements_of_row = k;
  tables = step.tables;
  const uint lane = gl_SubgroupInvocationID;
  const uint part = gl_SubgroupID;
  const Columns columns = columns_of(kColumns);
  if (columns.count == 0) return;
  load_codebook();
  const uint matrix = columns.matrix;

  // Read once: some drivers would read push constants again and again inside the loops.
  const uint depth = k;
  uvec2 column[kColumns];
  uint64_t x_at[kColumns];
  [[unroll]] for (uint c = 0; c < kColumns; ++c) {
    column[c] = column_of(columns, c);
    x_at[c] = column_at(column[c]);
  }
#ifndef INTEGER
  if (kNorm != 0) normalise(at(x_strides, 0, columns.first));
#endif
  const uint pieces = (depth + kPiece - 1) / kPiece;
  const uint stretch = (pieces + kParts - 1) / kParts;
  const uint first_piece = part * stretch;
  const uint end_piece = min(first_piece + stretch, pieces);
  uint which = 0;
  for (uint tile = gl_WorkGroupID.x; tile < tiles; tile += gl_NumWorkGroups.x) {
    while (which + 1 < weight_count && tile >= weights.v[which + 1].first_tile) ++which;
    const Matrix of = weights.v[which];
    const Matrix second = weights.v[which + kWeights - 1];
    const uint n = of.n;
    // Of this lane; then every kLanes.
    const uint first_row = (tile - of.first_tile) * (kLanes * kRows) + lane;
    Row row[kWeights * kRows];
    precise float sum[kSumsOfLane];
    [[unroll]] for (uint m = 0; m < kWeights; ++m) {
      const Planes planes = m == 0 ? Planes(of.w, of.planes) : Planes(second.w, second.planes);
      [[unroll]] for (uint r = 0; r < kRows; ++r) {
        row[m * kRows + r] =
            row_at(planes, depth, n, matrix, min(first_row + r * kLanes, n - 1));
      }
    }
    [[unroll]] for (uint s = 0; s < kSumsOfLane; ++s) sum[s] = 0;
#ifdef INTEGER
    // The first weights are on their way while activations are normalised and rounded.
    uint q[kAhead][kWeights * kRows][8];
    vec2 scale[kAhead][kWeights * kRows];
    vec2 least[kAhead][kWeights * kRows];
    LOAD_PIECES(first_piece);
    if (kNorm != 0 && tile == gl_WorkGroupID.x) normalise(at(x_strides, 0, columns.first));
    const uint block_pieces = kRounded ? pieces : kBlock;
    [[dont_unroll]] for (uint block = first_piece; block < end_piece; block += block_pieces) {
      if (!kRounded) round_block(x_at[0], block, pieces - 1, part, lane);
      const uint block_end = min(block + block_pieces, end_piece);
      [[dont_unroll]] for (uint i = block; i < block_end; i += kAhead) {
        [[unroll]] for (uint p = 0; p < kAhead; ++p) {
          const bool is_there = i + p < end_piece;
          [[unroll]] for (uint c = 0; c < kColumns; ++c) {
            BytePiece a;
            if (kRounded) {
              a = BytePieces(x_at[c]).v[min(i + p, end_piece - 1)];
            } else {
              a = piece_of(part, i + p - block);
            }
            const ivec2 begin = first_sums(a.first_sum, a.second_sum);
            const vec2 a_sums = vec2(a.first_sum, a.second_sum);
            [[unroll]] for (uint r = 0; r < kWeights * kRows; ++r) {
              ivec2 sums = begin;
              [[unroll]] for (uint t = 0; t < 8; ++t) add_products(sums, t, q[p][r][t], a.q[t]);
              const uint s = r * kColumns + c;
              const float more =
                  with_piece(sum[s], sums, scale[p][r], least[p][r], a.scale, a_sums);
              sum[s] = is_there ? more : sum[s];
            }
          }
        }
        if (i + kAhead < end_piece) LOAD_PIECES(i + kAhead);
      }
    }
#else
    [[dont_unroll]] for (uint i = first_piece; i < end_piece; ++i) {
#if BLOCK == 1
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
      if (kHanded == 0) {
        // Four elements after four: what all columns have of a piece is more than there are registers.
#ifdef LEVELS
        uint q[kWeights * kRows][8];
        vec2 scale[kWeights * kRows];
        vec2 least[kWeights * kRows];
#else
        float v[kWeights * kRows][32];
#endif
        [[unroll]] for (uint r = 0; r < kWeights * kRows; ++r) {
#ifdef LEVELS
          levels(row[r], i, q[r], scale[r], least[r]);
          least[r] = least_of(scale[r], least[r]);
#else
          decode(row[r], i, v[r]);
#endif
        }
        [[unroll]] for (uint t = 0; t < 8; ++t) {
          vec4 w[kWeights * kRows];
          [[unroll]] for (uint r = 0; r < kWeights * kRows; ++r) {
            [[unroll]] for (uint e = 0; e < 4; ++e) {
#ifdef LEVELS
              w[r][e] = weight_of(q[r], 4 * t + e, scale[r], least[r]);
#else
              w[r][e] = v[r][4 * t + e];
#endif
            }
          }
          [[unroll]] for (uint c = 0; c < kColumns; ++c) {
            const vec4 a = four_at(x_at[c], i * kPiece + 4 * t);
            [[unroll]] for (uint r = 0; r < kWeights * kRows; ++r) {
              const uint s = r * kColumns + c;
              [[unroll]] for (uint e = 0; e < 4; ++e) sum[s] = fma(w[r][e], a[e], sum[s]);
            }
          }
        }
      } else if (kColumns > kWeights * kRows) {
        // The fewer of rows and columns are in registers all at once.
        float v[kWeights * kRows][32];
        [[unroll]] for (uint r = 0; r < kWeights * kRows; ++r) decode(row[r], i, v[r]);
        [[unroll]] for (uint c = 0; c < kColumns; ++c) {
          vec2 a[16];
          load(x_at[c], i, lane, a);
          [[unroll]] for (uint r = 0; r < kWeights * kRows; ++r) {
            sum[r * kColumns + c] = add_piece(v[r], a, sum[r * kColumns + c]);
          }
        }
      } else {
        vec2 a[kColumns][16];
        [[unroll]] for (uint c = 0; c < kColumns; ++c) load(x_at[c], i, lane, a[c]);
        [[unroll]] for (uint r = 0; r < kWeights * kRows; ++r) {
          float v[32];
          decode(row[r], i, v);
          [[unroll]] for (uint c = 0; c < kColumns; ++c) {
            sum[r * kColumns + c] = add_piece(v, a[c], sum[r * kColumns + c]);
          }
        }
      }
#endif
    }
#endif
    if (kParts > 1) {
      [[unroll]] for (uint s = 0; s < kSumsOfLane; s += 4) {
        uvec4 own = uvec4(0);
        [[unroll]] for (uint t = 0; t < 4; ++t) {
          if (s + t < kSumsOfLane) own[t] = floatBitsToUint(sum[s + t]);
        }
        barrier();
        own_words[part * kOfSubgroup + lane] = own;
        barrier();
        if (part > 0) continue;
        for (uint other = 1; other < kParts; ++other) {
          const vec4 more = uintBitsToFloat(own_words[other * kOfSubgroup + lane]);
          [[unroll]] for (uint t = 0; t < 4; ++t) {
            if (s + t < kSumsOfLane) sum[s + t] += more[t];
          }
        }
      }
      barrier();
      if (part > 0) continue;
    }
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      const uint result = first_row + r * kLanes;
      if (result >= n) break;
      [[unroll]] for (uint c = 0; c < kColumns; ++c) {
        if (c >= columns.count) break;
        const float up = kWeights > 1 ? sum[((kWeights - 1) * kRows + r) * kColumns + c] : 0.0;
        finish(of, second, sum[r * kColumns + c], up, matrix, column[c], result);
      }
    }
  }
}
