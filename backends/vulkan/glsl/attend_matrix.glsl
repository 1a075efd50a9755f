// Attention of tiles of queries by cooperative matrices. A workgroup has kSubgroups × kRows queries
// of one head of keys: neighbouring rows, and in them the heads that share the keys. A subgroup has
// kRows of them; its lanes share each query's softmax. Keys, values and the weights of the softmax are
// float16, sums float32 (Dao 2023, "FlashAttention-2").
//
// Keys and values are visited in pieces of kTokens tokens that begin at multiples of it, whatever the tile
// begins with. Of a piece a query takes in what it sees; what it does not see adds exactly nothing. So
// its bits depend on no other query of its tile.
//
// While the scores of a piece are computed its values are on their way; while its values are mixed,
// the next keys are, unless the heads are so wide that registers do not suffice.
//
// glsl/matrix.glsl comes first in a shader. A shader that includes this file has before it
//   kKeyDim, kValueDim         of a head, multiples of 16
//   kSubgroups, kLanes         subgroups of a workgroup, lanes of a subgroup
//   kTokens                    of a piece: 16, 32 or 64
//   kHeld                      not 0: queries stay in registers, else in shared memory
//   kAcross                    1: keys are [element][token], not [token][element]
//   kSinks                     1: sinks.v has a score for each head
//   group                      query heads of a key's head
//   tiles                      of a head of keys
//   scale, softcap             of scores
// and defines behind it, before attend():
//   Rows rows_here()           the rows that are computed
//   Seen seen_by(row)          what a row sees
//   Run run_of(begin, end)     the first rows that see the tokens of one sequence or text
//   float query_of(head, row, i), void store(head, row, i, x)
//   uint64_t piece_of(run, token)
//                              where the piece that begins with a token lies: the shader's own
//   uvec4 key_units(piece, token, i), uvec4 value_units(piece, token, i)
//                              eight elements of a token from i on as they lie in memory, or eight
//                              tokens from `token` on of element i of keys that lie across
//   uvec4 key_halves(units), uvec4 value_halves(units)
//                              the same as float16
//   float with_bias(x, row, head, run, token)
//                              x, the score of a token, with a bias by its distance, if there is one
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require

// Compilers keep matrices and arrays in registers only where loops over them are unrolled. The only
// driver with the smallest matrices is one of a processor, which has no registers for them and takes
// minutes for such code.
#if MATRIX_M == 8 && MATRIX_N == 8
#define UNROLLED [[dont_unroll]]
#else
#define UNROLLED [[unroll]]
#endif

struct Rows {
  uint begin, end;
};
struct Seen {
  uint first, last;  // tokens
};
struct Run {
  uint count;        // rows
  uint first, last;  // tokens that any of them sees
  uint source;       // the shader's own: a sequence, or where a text begins
};

const uint kRows = kMatrixM;  // queries of a subgroup
const uint kQueriesOfTile = kRows * kSubgroups;
const uint kThreads = kLanes * kSubgroups;
const bool kWide = kKeyDim > 128 || kValueDim > 128;

// Shared memory, in units of 16 bytes. A row has one more than it needs: rows begin at different
// banks. First come the keys of a piece, and later its values in their place. Queries that go to
// registers are put there before; others have a place of their own.
const uint kQueryStride = kKeyDim / 8 + 1;
const uint kKeyStride = (kAcross != 0 ? kTokens : kKeyDim) / 8 + 1;
const uint kKeyUnits = kKeyStride * (kAcross != 0 ? kKeyDim : kTokens);
const uint kValueStride = kValueDim / 8 + 1;
const uint kValueUnits = kValueStride * kTokens;
const uint kQueryUnits = kQueryStride * kQueriesOfTile;
const uint kOneOfTwo = kKeyUnits > kValueUnits ? kKeyUnits : kValueUnits;
const uint kPieceUnits = kHeld != 0 && kQueryUnits > kOneOfTwo ? kQueryUnits : kOneOfTwo;
const uint kQueriesAt = kHeld != 0 ? 0 : kPieceUnits;
const uint kScoresAt = kHeld != 0 ? kPieceUnits : kPieceUnits + kQueryUnits;
const uint kScoreStride = kTokens / 4 + 1;
const uint kFactorsAt = kScoresAt + kScoreStride * kQueriesOfTile;
const uint kFactorUnits = kMatrixN / 4 * kRows;  // of a subgroup

const uint kFactorsEnd = kFactorsAt + kFactorUnits * kSubgroups;
// Results at the end, so many matrices of a subgroup at a time.
const uint kPassTiles = (kValueDim < 128 ? kValueDim : 128) / kMatrixN;
const uint kPassStride = kPassTiles * kMatrixN / 4 + 1;
const uint kPassUnits = kPassStride * kQueriesOfTile;

shared uvec4 tiles_of[kFactorsEnd > kPassUnits ? kFactorsEnd : kPassUnits];

// Lanes that share a query, and each one's stretch of a piece's tokens: whole steps of K.
const uint kMostSharing = kTokens / 16;
const uint kSharing = kLanes / kRows > kMostSharing ? kMostSharing : kLanes / kRows;
const uint kStretch = kTokens / kSharing;

const uint kKeySteps = kKeyDim / kMatrixK;
const uint kScoreTiles = kTokens / kMatrixN;
const uint kTokenSteps = kTokens / kMatrixK;
const uint kMixTiles = kValueDim / kMatrixN;

MatrixA queries[kHeld != 0 ? kKeySteps : 1];
MatrixSum mix[kMixTiles];

// What a thread brings of a piece.
const uint kAllKeyUnits = kTokens * kKeyDim / 8;
const uint kAllValueUnits = kTokens * kValueDim / 8;
const uint kOwnKeys = (kAllKeyUnits + kThreads - 1) / kThreads;
const uint kOwnValues = (kAllValueUnits + kThreads - 1) / kThreads;

#define kNone uintBitsToFloat(0xff800000u)
const float kLog2E = 1.44269504088896341;
const float kMostHalf = 65504.0;

// a · b, element by element: OpFMul.
spirv_instruction(id = 133) MatrixSum times(MatrixSum a, MatrixSum b);

// What is finite stays finite as float16.
float limited(float x) {
  return abs(x) < uintBitsToFloat(0x7f800000u) ? clamp(x, -kMostHalf, kMostHalf) : x;
}

// The same of two float16 that are stored: values that a query does not see are multiplied by 0, which
// no infinity and no NaN survives.
uint finite_halves(uint both) {
  const uint low = (both & 0x7c00u) == 0x7c00u ? 0x7bffu : both & 0x7fffu;
  const uint high = (both & 0x7c000000u) == 0x7c000000u ? 0x7bff0000u : both & 0x7fff0000u;
  return (both & 0x80008000u) | low | high;
}

uint packed(float x, float y) { return packFloat2x16(f16vec2(to_half(x), to_half(y))); }

// Over the lanes that share a query.
float largest_of_sharing(float x) {
  UNROLLED for (uint n = 1; n < kSharing; n *= 2) x = max(x, subgroupShuffleXor(x, n));
  return x;
}
float sum_of_sharing(float x) {
  UNROLLED for (uint n = 1; n < kSharing; n *= 2) {
    const precise float sum = x + subgroupShuffleXor(x, n);
    x = sum;
  }
  return x;
}

Rows rows_here();
Seen seen_by(uint row);
Run run_of(uint begin, uint end);
float query_of(uint head, uint row, uint i);
void store(uint head, uint row, uint i, float x);
uint64_t piece_of(Run run, uint token);
uvec4 key_units(uint64_t piece, uint token, uint i);
uvec4 key_halves(uvec4 units);
uvec4 value_units(uint64_t piece, uint token, uint i);
uvec4 value_halves(uvec4 units);
float with_bias(float x, uint row, uint head, Run run, uint token);

void load_keys(uint64_t piece, uint begin, out uvec4 own[kOwnKeys]) {
  UNROLLED for (uint o = 0; o < kOwnKeys; ++o) {
    const uint j = o * kThreads + gl_LocalInvocationIndex;
    own[o] = uvec4(0);
    if (j >= kAllKeyUnits) continue;
    own[o] = kAcross != 0 ? key_units(piece, begin + j % (kTokens / 8) * 8, j / (kTokens / 8))
                          : key_units(piece, begin + j / (kKeyDim / 8), j % (kKeyDim / 8) * 8);
  }
}

void put_keys(uvec4 own[kOwnKeys]) {
  const uint row_units = kAcross != 0 ? kTokens / 8 : kKeyDim / 8;
  UNROLLED for (uint o = 0; o < kOwnKeys; ++o) {
    const uint j = o * kThreads + gl_LocalInvocationIndex;
    if (j < kAllKeyUnits) {
      tiles_of[j / row_units * kKeyStride + j % row_units] = key_halves(own[o]);
    }
  }
}

// Tokens behind the last one that is seen need not have been written: zeros.
void load_values(uint64_t piece, uint begin, uint last, out uvec4 own[kOwnValues]) {
  UNROLLED for (uint o = 0; o < kOwnValues; ++o) {
    const uint j = o * kThreads + gl_LocalInvocationIndex;
    const uint token = begin + j / (kValueDim / 8);
    own[o] = uvec4(0);
    if (j < kAllValueUnits && token <= last) {
      own[o] = value_units(piece, token, j % (kValueDim / 8) * 8);
    }
  }
}

void put_values(uvec4 own[kOwnValues]) {
  UNROLLED for (uint o = 0; o < kOwnValues; ++o) {
    const uint j = o * kThreads + gl_LocalInvocationIndex;
    if (j < kAllValueUnits) {
      uvec4 halves = value_halves(own[o]);
      UNROLLED for (uint w = 0; w < 4; ++w) halves[w] = finite_halves(halves[w]);
      tiles_of[j / (kValueDim / 8) * kValueStride + j % (kValueDim / 8)] = halves;
    }
  }
}

// The subgroup's products of queries and keys, to its scores in shared memory: kTogether matrices of
// them at a time, for which there are registers.
const uint kTogether = (kTokens < 32 ? kTokens : 32) / kMatrixN;

void multiply_keys(uint scores) {
  UNROLLED for (uint first = 0; first < kScoreTiles; first += kTogether) {
    MatrixSum score[kTogether];
    UNROLLED for (uint n = 0; n < kTogether; ++n) score[n] = filled(0.0);
    UNROLLED for (uint s = 0; s < kKeySteps; ++s) {
      MatrixA a;
      if (kHeld != 0) {
        a = queries[s];
      } else {
        a = load_a(tiles_of[kQueriesAt + gl_SubgroupID * kRows * kQueryStride + s * (kMatrixK / 8)],
                   kRowMajor, kQueryStride, MAKE_VISIBLE, kWorkgroupScope);
      }
      UNROLLED for (uint n = 0; n < kTogether; ++n) {
        const uint token = (first + n) * kMatrixN;
        MatrixB b;
        if (kAcross != 0) {
          b = load_b(tiles_of[s * kMatrixK * kKeyStride + token / 8], kRowMajor, kKeyStride,
                     MAKE_VISIBLE, kWorkgroupScope);
        } else {
          b = load_b(tiles_of[token * kKeyStride + s * (kMatrixK / 8)], kColumnMajor, kKeyStride,
                     MAKE_VISIBLE, kWorkgroupScope);
        }
        score[n] = multiply_add(a, b, score[n]);
      }
    }
    UNROLLED for (uint n = 0; n < kTogether; ++n) {
      store_sum(tiles_of[scores + (first + n) * (kMatrixN / 4)], score[n], kRowMajor, kScoreStride,
                MAKE_AVAILABLE, kWorkgroupScope);
    }
  }
}

// Takes the values of a piece into the subgroup's mixes.
void mix_values(uint scores) {
  UNROLLED for (uint s = 0; s < kTokenSteps; ++s) {
    // Each lane has left its stretch of weights at the begin of its stretch of scores.
    const uint token = s * kMatrixK;
    const MatrixA a = load_a(
        tiles_of[scores + token / kStretch * (kStretch / 4) + token % kStretch / 8], kRowMajor,
        kScoreStride, MAKE_VISIBLE, kWorkgroupScope);
    UNROLLED for (uint d = 0; d < kMixTiles; ++d) {
      const MatrixB b = load_b(tiles_of[token * kValueStride + d * (kMatrixN / 8)], kRowMajor,
                               kValueStride, MAKE_VISIBLE, kWorkgroupScope);
      mix[d] = multiply_add(a, b, mix[d]);
    }
  }
}

void attend() {
  const Rows rows = rows_here();
  const uint all = (rows.end - rows.begin) * group;
  // Those that see most begin first.
  const uint first_query = (tiles - 1 - gl_WorkGroupID.y) * kQueriesOfTile;
  if (first_query >= all) return;
  const uint end_row = rows.begin + (min(first_query + kQueriesOfTile, all) - 1) / group + 1;

  // The lane's query, which it shares. Where there is none, the last one stands for it.
  const uint lane = gl_SubgroupInvocationID;
  const uint own = lane / kSharing % kRows;
  const uint part = lane % kSharing;
  const bool works = lane < kRows * kSharing;
  const uint wanted = first_query + gl_SubgroupID * kRows + own;
  const bool given = works && wanted < all;
  const uint query = min(wanted, all - 1);
  const uint row = rows.begin + query / group;
  const uint head = gl_WorkGroupID.x * group + query % group;
  const Seen seen = seen_by(row);

  // A query is multiplied by a power of two, so that its largest element is in [1, 2).
  float most = 0;
  for (uint i = part; i < kKeyDim; i += kSharing) most = max(most, abs(query_of(head, row, i)));
  most = largest_of_sharing(most);
  const uint exponent = clamp(floatBitsToUint(most) >> 23, 1, 253);
  const float factor = uintBitsToFloat((254 - exponent) << 23);  // both are normal numbers
  const precise float back = (softcap > 0 ? scale : scale * kLog2E) * uintBitsToFloat(exponent << 23);
  if (works) {
    const uint to = kQueriesAt + (gl_SubgroupID * kRows + own) * kQueryStride;
    for (uint u = part; u < kKeyDim / 8; u += kSharing) {
      uvec4 halves;
      UNROLLED for (uint w = 0; w < 4; ++w) {
        halves[w] = packed(query_of(head, row, u * 8 + 2 * w) * factor,
                           query_of(head, row, u * 8 + 2 * w + 1) * factor);
      }
      tiles_of[to + u] = halves;
    }
  }
  barrier();
  if (kHeld != 0) {
    UNROLLED for (uint s = 0; s < kKeySteps; ++s) {
      queries[s] =
          load_a(tiles_of[gl_SubgroupID * kRows * kQueryStride + s * (kMatrixK / 8)], kRowMajor,
                 kQueryStride, MAKE_VISIBLE, kWorkgroupScope);
    }
  }
  barrier();

  // The largest score so far times log2 e, and the lane's part of the sum of weights.
  most = kSinks != 0 ? sinks.v[head] * kLog2E : kNone;
  float sum = kSinks != 0 && part == 0 ? 1.0 : 0.0;
  UNROLLED for (uint d = 0; d < kMixTiles; ++d) mix[d] = filled(0.0);
  const uint scores = kScoresAt + gl_SubgroupID * kRows * kScoreStride;
  const uint own_scores = scores + own * kScoreStride + part * (kStretch / 4);
  const uint factors = kFactorsAt + gl_SubgroupID * kFactorUnits;

  uint first_row = rows.begin + first_query / group;
  [[dont_unroll]] do {
    const Run run = run_of(first_row, end_row);
    const bool takes = given && row - first_row < run.count;
    first_row += run.count;
    uint begin = run.first / kTokens * kTokens;
    uint64_t piece = piece_of(run, begin);
    uvec4 keys[kOwnKeys];
    load_keys(piece, begin, keys);
    [[dont_unroll]] do {
      // A subgroup that sees nothing of the piece has nothing to add.
      const bool sees = takes && seen.first < begin + kTokens && seen.last >= begin;
      const bool subgroup_sees = subgroupMax(sees ? 1u : 0u) != 0;
      put_keys(keys);
      barrier();
      uvec4 values[kOwnValues];
      load_values(piece, begin, run.last, values);
      if (subgroup_sees) multiply_keys(scores);
      barrier();  // the keys have been read
      put_values(values);
      bool shrinks = false;
      if (subgroup_sees) {
        const uint stretch = begin + part * kStretch;
        float score[kStretch];
        UNROLLED for (uint t = 0; t < kStretch; t += 4) {
          const vec4 four = uintBitsToFloat(tiles_of[own_scores + t / 4]);
          UNROLLED for (uint e = 0; e < 4; ++e) score[t + e] = four[e];
        }
        UNROLLED for (uint t = 0; t < kStretch; ++t) {
          score[t] = with_bias(score[t] * back, row, head, run, stretch + t);
        }
        if (softcap > 0) {
          UNROLLED for (uint t = 0; t < kStretch; ++t) {
            score[t] = softcap * kLog2E * tanh_of(score[t] / softcap);
          }
        }
        float now = most;
        UNROLLED for (uint t = 0; t < kStretch; ++t) {
          const uint token = stretch + t;
          if (!sees || token < seen.first || token > seen.last) score[t] = kNone;
          now = max(now, score[t]);
        }
        now = largest_of_sharing(now);
        const float shrink = now > most ? exp2(most - now) : 1.0;
        const float base = now == kNone ? 0.0 : now;  // nothing seen so far: weights of 0
        most = now;
        precise float more = 0;
        UNROLLED for (uint t = 0; t < kStretch; ++t) {
          score[t] = score[t] == kNone ? 0.0 : exp2(score[t] - base);
          more += score[t];
        }
        precise float kept = sum * shrink;
        sum = kept + more;
        if (works) {
          UNROLLED for (uint t = 0; t < kStretch; t += 8) {
            tiles_of[own_scores + t / 8] =
                uvec4(packed(score[t], score[t + 1]), packed(score[t + 2], score[t + 3]),
                      packed(score[t + 4], score[t + 5]), packed(score[t + 6], score[t + 7]));
          }
        }
        shrinks = subgroupMax(shrink != 1.0 ? 1u : 0u) != 0;
        if (shrinks && works) {
          const uvec4 four = floatBitsToUint(vec4(shrink));
          for (uint u = part; u < kMatrixN / 4; u += kSharing) {
            tiles_of[factors + own * (kMatrixN / 4) + u] = four;
          }
        }
      }
      barrier();
      begin += kTokens;
      if (begin <= run.last) piece = piece_of(run, begin);
      if (!kWide && begin <= run.last) load_keys(piece, begin, keys);
      if (subgroup_sees) {
        if (shrinks) {
          const MatrixSum shrink = load_sum(tiles_of[factors], kRowMajor, kMatrixN / 4,
                                            MAKE_VISIBLE, kWorkgroupScope);
          UNROLLED for (uint d = 0; d < kMixTiles; ++d) mix[d] = times(mix[d], shrink);
        }
        mix_values(scores);
      }
      if (kWide && begin <= run.last) load_keys(piece, begin, keys);
      barrier();  // the values and weights have been read
    } while (begin <= run.last);
  } while (first_row < end_row);

  // In the place of all else.
  sum = sum_of_sharing(sum);
  const uint results = gl_SubgroupID * kRows * kPassStride;
  UNROLLED for (uint first = 0; first < kMixTiles; first += kPassTiles) {
    barrier();
    UNROLLED for (uint n = 0; n < kPassTiles; ++n) {
      if (first + n < kMixTiles) {
        store_sum(tiles_of[results + n * (kMatrixN / 4)], mix[first + n], kRowMajor, kPassStride,
                  MAKE_AVAILABLE, kWorkgroupScope);
      }
    }
    barrier();
    const uint count = given ? min(kValueDim - first * kMatrixN, kPassTiles * kMatrixN) : 0;
    [[dont_unroll]] for (uint i = part * 4; i < count; i += kSharing * 4) {
      const vec4 four = uintBitsToFloat(tiles_of[results + own * kPassStride + i / 4]);
      UNROLLED for (uint e = 0; e < 4; ++e) {
        store(head, row, first * kMatrixN + i + e, four[e] / sum);
      }
    }
  }
}
