#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/math.glsl"
#include "backends/vulkan/glsl/cache.glsl"
#include "backends/vulkan/glsl/merge.glsl"

// Attention of many rows: a workgroup takes kLanes queries of one key head, rows and in them the heads
// of its group, so that the keys and values of a page are read once for all of them, into shared
// memory. Lane l of each of the kParts parts has query l; a part computes the scores of a stretch of
// a page's tokens, and mixes a stretch of the values' elements. All is summed in the order of
// attention.comp, so that a row has the same bits by either.
#define WORKGROUP_SIZE(id, field, value) layout(local_size_x_id = id) in;
#include "backends/vulkan/glsl/constants.glsl"
#include "backends/vulkan/ops/attention.def"

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 q;
  I32 slots, last_seen, sequences;
  F32 sinks, y;
  Strides q_strides, y_strides;
  uint group;  // query heads of a key's head
  uint kind;
  uint k_offset, v_offset, k_row, v_row;
  float scale, softcap;
  uint window;
  uint key_dim;  // as kKeyDim, but no constant: drivers would unroll loops over it
  uint tiles, unused;
  F32 slopes;  // with biases
};

const uint kLanes = kQueries;  // of a part
const uint kTokens = kPageTokens / kParts;                   // of a part
const uint kMix = (kValueDim + 4 * kParts - 1) / (4 * kParts) * 4;  // elements of a part
const uint kThreads = kLanes * kParts;
// A piece of keys or values in shared memory, in fours: kSlice elements of each key of a page, or so
// many tokens' values.
const uint kSlice = 32;
const uint kPieceFours = kSlice * kPageTokens / 4;
const uint kValueFours = kMix * kParts / 4;
const uint kFittingTokens = kPieceFours / kValueFours;
// Neighbours that are computed together, so that loads of one wait for nothing of another.
const uint kTogether = kFittingTokens < 4 ? 1 : 4;
const uint kSliceTokens = kFittingTokens < kPageTokens ? kFittingTokens / kTogether * kTogether
                                                       : kPageTokens;

#define kNone uintBitsToFloat(0xff800000u)

shared float weights[kPageTokens * kLanes];
shared vec4 piece[kPieceFours];
shared float queries[kSlice * kLanes];
shared float exchanged[2 * kParts * kLanes];

uint lane;
uint part;

// x is needed from the other parts: what they gave at the same turn, in their order.
void give(float x, uint turn) {
  exchanged[(turn * kParts + part) * kLanes + lane] = x;
  barrier();
}
float given(uint other, uint turn) { return exchanged[(turn * kParts + other) * kLanes + lane]; }

// What a thread brings of a piece: while one piece is computed the next one is on its way.
const uint kOwnFours = (kPieceFours + kThreads - 1) / kThreads;
const uint kOwnQueries = (kSlice + kParts - 1) / kParts;

// The keys' elements from `from` on.
void load_keys(uint64_t keys, uint from, out vec4 own[kOwnFours]) {
  [[unroll]] for (uint o = 0; o < kOwnFours; ++o) {
    const uint j = o * kThreads + gl_LocalInvocationIndex;
    own[o] = vec4(0);
    if (kAcross != 0) {
      const uint i = from + j / (kPageTokens / 4);
      if (i < key_dim) {
        own[o] = four_of(kKeyType, true, keys, i * kPageTokens + j % (kPageTokens / 4) * 4, 0);
      }
    } else {
      const uint i = from + j / kPageTokens * 4;
      if (i < key_dim) {
        own[o] = four_of(kKeyType, kKeysWhole != 0, keys + j % kPageTokens * k_row, i, key_dim);
      }
    }
  }
}

void put_keys(vec4 own[kOwnFours]) {
  [[unroll]] for (uint o = 0; o < kOwnFours; ++o) {
    const uint j = o * kThreads + gl_LocalInvocationIndex;
    if (j >= kPieceFours) break;
    if (kAcross != 0) {
      piece[j] = own[o];
      continue;
    }
    const uint t = j % kPageTokens;
    const uint i = j / kPageTokens * 4;
    [[unroll]] for (uint e = 0; e < 4; ++e) {
      piece[(i + e) * (kPageTokens / 4) + t / 4][t % 4] = own[o][e];
    }
  }
}

// The lane's query from `from` on, every kParts-th element.
void load_query(uint64_t query, uint from, out float own[kOwnQueries]) {
  [[unroll]] for (uint o = 0; o < kOwnQueries; ++o) {
    const uint i = from + o * kParts + part;
    own[o] = i < key_dim ? F32(query).v[i] : 0.0;
  }
}

// The scores of the part's tokens.
void score_page(uint64_t keys, uint64_t query, inout float score[kTokens]) {
  vec4 own_keys[kOwnFours];
  float own_query[kOwnQueries];
  load_keys(keys, 0, own_keys);
  load_query(query, 0, own_query);
  uint from = 0;
  [[dont_unroll]] do {
    barrier();
    put_keys(own_keys);
    [[unroll]] for (uint o = 0; o < kOwnQueries; ++o) {
      if (o * kParts + part < kSlice) queries[(o * kParts + part) * kLanes + lane] = own_query[o];
    }
    barrier();
    from += kSlice;
    if (from < key_dim) {
      load_keys(keys, from, own_keys);
      load_query(query, from, own_query);
    }
    [[dont_unroll]] for (uint first = 0; first < kSlice; first += 4) {
      [[unroll]] for (uint i = first; i < first + 4; ++i) {
        const float x = queries[i * kLanes + lane];
        [[unroll]] for (uint t = 0; t < kTokens; t += 4) {
          const vec4 k = piece[(i * kPageTokens + part * kTokens + t) / 4];
          [[unroll]] for (uint e = 0; e < 4; ++e) score[t + e] = fma(x, k[e], score[t + e]);
        }
      }
    }
  } while (from < key_dim);
}

// Takes in the value of token t of the page, which is at `place` in the piece.
void add_value(uint t, uint place, inout float mix[kMix]) {
  const float weight = weights[t * kLanes + lane];
  [[unroll]] for (uint d = 0; d < kMix; d += 4) {
    const vec4 v = piece[place * kValueFours + (part * kMix + d) / 4];
    [[unroll]] for (uint e = 0; e < 4; ++e) mix[d + e] = fma(weight, v[e], mix[d + e]);
  }
}

// The values of the tokens from `from` on; zeros from `end` on.
void load_values(uint64_t values, uint from, uint end, out vec4 own[kOwnFours]) {
  [[unroll]] for (uint o = 0; o < kOwnFours; ++o) {
    const uint j = o * kThreads + gl_LocalInvocationIndex;
    const uint t = from + j / kValueFours;
    const uint d = j % kValueFours * 4;
    own[o] = vec4(0);
    if (j < kSliceTokens * kValueFours && t < end && d < kValueDim) {
      own[o] = four_of(kValueType, kValuesWhole != 0, values + t * v_row, d, kValueDim);
    }
  }
}

// Takes in the values of the tokens before `end`, each where the lane sees it: where its distance
// from `start` is below `seen`.
void mix_page(uint64_t values, uint end, uint start, uint seen, inout float mix[kMix]) {
  vec4 own[kOwnFours];
  load_values(values, 0, end, own);
  uint from = 0;
  [[dont_unroll]] do {
    barrier();
    [[unroll]] for (uint o = 0; o < kOwnFours; ++o) {
      const uint j = o * kThreads + gl_LocalInvocationIndex;
      if (j < kPieceFours) piece[j] = own[o];
    }
    barrier();
    const uint next = from + kSliceTokens;
    if (next < end) load_values(values, next, end, own);
    const uint last = min(next, end);  // none behind it is seen
    [[dont_unroll]] for (uint first = from; first < last; first += kTogether) {
      const bool all = first >= start && first + kTogether <= start + seen;
      if (all) {
        [[unroll]] for (uint j = 0; j < kTogether; ++j) add_value(first + j, first + j - from, mix);
      } else {
        for (uint t = first; t < first + kTogether; ++t) {
          if (t - start < seen) add_value(t, t - from, mix);
        }
      }
    }
    from = next;
  } while (from < end);
}

// Neighbours added, then neighbouring sums, …: of all tokens of a page.
float tree_sum(float x[kTokens]) {
  [[unroll]] for (uint n = kTokens / 2; n > 0; n /= 2) {
    [[unroll]] for (uint i = 0; i < n; ++i) x[i] = x[2 * i] + x[2 * i + 1];
  }
  give(x[0], 1);
  float sums[kParts];
  [[unroll]] for (uint p = 0; p < kParts; ++p) sums[p] = given(p, 1);
  [[unroll]] for (uint n = kParts / 2; n > 0; n /= 2) {
    [[unroll]] for (uint i = 0; i < n; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
  }
  return sums[0];
}

// Rows [begin, end) of one sequence; `row` and `head` are the lane's, which `takes` part or not.
void attend(uint begin, uint end, uint row, uint head, bool takes) {
  const uint kv_head = gl_WorkGroupID.x;
  const uint sequence = uint(sequences.v[begin]);
  uint first_page = 0xffffffffu;
  uint last_slot = 0;
  for (uint r = begin; r < end; ++r) {
    first_page = min(first_page, first_seen(uint(slots.v[r]), window) / kPageTokens);
    last_slot = max(last_slot, uint(last_seen.v[r]));
  }
  const uint slot = uint(last_seen.v[row]);
  const int own_slot = int(slots.v[row]);
  const float slope = kAlibi != 0 ? slopes.v[head] : 0.0;
  const uint first = first_seen(uint(slots.v[row]), window);
  const uint pages = pages_seen(first, slot);
  const uint pages_of_chunk = chunk_pages(pages);
  const uint64_t query = uint64_t(q) + uint64_t(at(q_strides, head, row)) * 4;

  // Merged, and of a chunk.
  float most = kSinks != 0 ? sinks.v[head] : kNone;
  float sum = kSinks != 0 ? 1.0 : 0.0;
  float mix[kMix];
  float chunk_most = kNone;
  float chunk_sum[kTokens];
  float chunk_mix[kMix];
  [[unroll]] for (uint d = 0; d < kMix; ++d) mix[d] = chunk_mix[d] = 0;
  [[unroll]] for (uint t = 0; t < kTokens; ++t) chunk_sum[t] = 0;

  uint next_chunk = pages_of_chunk;  // the lane's page that begins it
  uint page = first_page;
  [[dont_unroll]] do {
    const uint start = page * kPageTokens;
    const uint p = page - first / kPageTokens;  // the lane's: huge before its first
    const bool here = takes && p < pages;
    const uint64_t memory = page_of(step.kinds[kind], sequence, start);
    float score[kTokens];
    [[unroll]] for (uint t = 0; t < kTokens; ++t) score[t] = 0;
    const uint64_t keys = memory + k_offset + kv_head * kPageTokens * k_row;
    score_page(keys, query, score);
    // Of the page's tokens the lane sees those from `early` on, `count` of them.
    const uint early = first > start ? first - start : 0;
    const uint count = here ? min(slot - start + 1, kPageTokens) - early : 0;
    float largest = kNone;
    [[unroll]] for (uint t = 0; t < kTokens; ++t) {
      score[t] *= scale;
      if (kAlibi != 0) {
        score[t] = fma(-slope, abs(float(own_slot - int(start + part * kTokens + t))), score[t]);
      }
      if (softcap > 0) score[t] = softcap * tanh_of(score[t] / softcap);
      if (part * kTokens + t - early >= count) score[t] = kNone;
      largest = max(largest, score[t]);
    }
    float now = chunk_most;
    give(largest, 0);
    [[unroll]] for (uint other = 0; other < kParts; ++other) now = max(now, given(other, 0));
    const float shrink = here ? exp_of(chunk_most - now) : 1.0;
    chunk_most = now;
    [[unroll]] for (uint t = 0; t < kTokens; ++t) {
      const bool seen = part * kTokens + t - early < count;
      score[t] = seen ? exp_of(score[t] - now) : 0.0;
      chunk_sum[t] = fma(chunk_sum[t], shrink, score[t]);
      weights[(part * kTokens + t) * kLanes + lane] = score[t];
    }
    [[unroll]] for (uint d = 0; d < kMix; ++d) chunk_mix[d] *= shrink;
    const uint64_t values = memory + v_offset + kv_head * kPageTokens * v_row;
    const uint last = min(last_slot - start + 1, kPageTokens);
    mix_page(values, last, early, count, chunk_mix);

    const bool ends = here && (p + 1 == next_chunk || p + 1 == pages);
    const float all = tree_sum(chunk_sum);
    float merged_most = most;
    float merged_sum = sum;
    float keep, add;
    merge(merged_most, merged_sum, chunk_most, all, keep, add);
    if (ends) {
      most = merged_most;
      sum = merged_sum;
      chunk_most = kNone;
      next_chunk = p + 1 + pages_of_chunk;
    }
    [[unroll]] for (uint t = 0; t < kTokens; ++t) chunk_sum[t] = ends ? 0.0 : chunk_sum[t];
    [[unroll]] for (uint d = 0; d < kMix; ++d) {
      const float merged = merged_mix(mix[d], keep, chunk_mix[d], add);
      mix[d] = ends ? merged : mix[d];
      chunk_mix[d] = ends ? 0.0 : chunk_mix[d];
    }
    ++page;
  } while (page <= last_slot / kPageTokens);

  if (!takes) return;
  F32 to = F32(uint64_t(y) + uint64_t(at(y_strides, head, row) + part * kMix) * 4);
  [[unroll]] for (uint d = 0; d < kMix; ++d) {
    if (part * kMix + d < kValueDim) to.v[d] = mix[d] / sum;
  }
}

void main() {
  lane = gl_LocalInvocationIndex % kLanes;
  part = gl_LocalInvocationIndex / kLanes;
  const uint all = step.rows[0] * group;
  // Those that see most begin first.
  const uint tile = tiles - 1 - gl_WorkGroupID.y;
  const uint first_query = tile * kLanes;
  if (first_query >= all) return;
  const uint query = min(first_query + lane, all - 1);
  const uint row = query / group;
  const uint head = gl_WorkGroupID.x * group + query % group;
  const uint end = (min(first_query + kLanes, all) - 1) / group + 1;
  // Runs of rows of one sequence.
  uint begin = first_query / group;
  [[dont_unroll]] do {
    uint next = begin + 1;
    while (next < end && sequences.v[next] == sequences.v[begin]) ++next;
    attend(begin, next, row, head,
           row >= begin && row < next && first_query + lane < all);
    begin = next;
  } while (begin < end);
}
