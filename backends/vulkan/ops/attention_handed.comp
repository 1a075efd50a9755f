#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/math.glsl"
#include "backends/vulkan/glsl/cache.glsl"
#include "backends/vulkan/glsl/merge.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require

// Attention where a subgroup is a processor's vector, and is the whole workgroup: as many queries of
// one key head as it has lanes, rows and in them the heads of its group, so that the keys and values
// of a page are read once for all of them. Lanes load four neighbouring elements each: scores have
// tokens along the lanes, mixes elements of values, and what belongs to a query is handed round from
// the lane of its number. All is summed in the order of attention.comp, so that a row has the same
// bits by either.
//
// Loops over registers have no other loop in them: drivers would not unroll them.
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

const uint kLanes = kQueries;
const uint kFours = 4 * kLanes;                            // elements that the lanes load at once
const uint kTokens = kPageTokens / kLanes;                 // of a lane
const uint kMix = (kValueDim + kFours - 1) / kFours * 4;   // elements of a lane
const uint kScores = kQueries * kTokens;
const uint kMixes = kQueries * kMix;
const uint kTogether = kValueDim > 128 ? 1 : 2;            // pairs of tokens, so that code stays small

#define kNone uintBitsToFloat(0xff800000u)

shared uint64_t weights[kQueries * kPageTokens / 2];  // of two tokens each, negative if not seen
shared float quads[kQueries * kPageTokens / 4];       // sums of four neighbouring tokens

uint lane;

// The n-th token of a lane.
uint token(uint n) { return n / 4 * kFours + 4 * lane + n % 4; }
// The n-th element of a lane's mixes.
uint element(uint n) { return n / 4 * kFours + 4 * lane + n % 4; }

// Elements i to i + 3 of the lane's query.
vec4 four_of_query(uint64_t query, uint i) {
  return four_of(kF32, kQueriesWhole != 0, query, i, key_dim);
}

void score_page(uint64_t keys, uint64_t query, inout float score[kScores]) {
  uint i = 0;
  [[dont_unroll]] do {
    const vec4 x = four_of_query(query, i);
    float k[4 * kTokens];
    if (kAcross != 0) {  // an element of four neighbouring tokens
      [[unroll]] for (uint e = 0; e < 4; ++e) {
        [[unroll]] for (uint n = 0; n < kTokens; n += 4) {
          vec4 some = vec4(0);
          if (kKeyDim % 4 == 0 || i + e < key_dim) {
            some = four_of(kKeyType, true, keys, (i + e) * kPageTokens + token(n), 0);
          }
          [[unroll]] for (uint j = 0; j < 4; ++j) k[e * kTokens + n + j] = some[j];
        }
      }
    } else {  // four elements of a token
      [[unroll]] for (uint n = 0; n < kTokens; ++n) {
        const vec4 some =
            four_of(kKeyType, kKeysWhole != 0, keys + token(n) * k_row, i, key_dim);
        [[unroll]] for (uint e = 0; e < 4; ++e) k[e * kTokens + n] = some[e];
      }
    }
    [[unroll]] for (uint e = 0; e < 4; ++e) {
      [[unroll]] for (uint r = 0; r < kQueries; ++r) {
        const float xr = subgroupBroadcast(x[e], r);
        [[unroll]] for (uint n = 0; n < kTokens; ++n) {
          score[r * kTokens + n] = fma(xr, k[e * kTokens + n], score[r * kTokens + n]);
        }
      }
    }
    i += 4;
  } while (i < key_dim);
}

void mix_page(uint64_t values, uint end, inout float mix[kMixes]) {
  uint t = 0;
  [[dont_unroll]] do {
    [[unroll]] for (uint p = 0; p < kTogether; ++p) {
      const vec2 both = uintBitsToFloat(
          unpackUint2x32(weights[(lane * kPageTokens + t) / 2 + p]));
      [[unroll]] for (uint e = 0; e < 2; ++e) {
        const uint64_t row = values + (t + 2 * p + e) * v_row;
        float v[kMix];
        [[unroll]] for (uint n = 0; n < kMix; n += 4) {
          const uint d = min(element(n), (kValueDim - 1) / 4 * 4);
          const vec4 some = four_of(kValueType, kValuesWhole != 0, row, d, kValueDim);
          [[unroll]] for (uint j = 0; j < 4; ++j) v[n + j] = some[j];
        }
        [[unroll]] for (uint r = 0; r < kQueries; ++r) {
          const float weight = subgroupBroadcast(both[e], r);
          const bool seen = !(weight < 0);
          [[unroll]] for (uint n = 0; n < kMix; ++n) {
            const float more = fma(weight, v[n], mix[r * kMix + n]);
            mix[r * kMix + n] = seen ? more : mix[r * kMix + n];
          }
        }
      }
    }
    t += 2 * kTogether;
  } while (t < end);
}

// The sum over the tokens of a page, of the lane's query: neighbours added, then neighbouring sums, …
float tree_sum(float x[kScores]) {
  [[unroll]] for (uint r = 0; r < kQueries; ++r) {
    [[unroll]] for (uint n = 0; n < kTokens; n += 4) {
      const uint o = r * kTokens + n;
      quads[(r * kPageTokens + token(n)) / 4] = (x[o] + x[o + 1]) + (x[o + 2] + x[o + 3]);
    }
  }
  subgroupMemoryBarrierShared();
  float sums[kPageTokens / 4];
  [[unroll]] for (uint i = 0; i < kPageTokens / 4; ++i) {
    sums[i] = quads[lane * kPageTokens / 4 + i];
  }
  subgroupMemoryBarrierShared();
  [[unroll]] for (uint n = kPageTokens / 8; n > 0; n /= 2) {
    [[unroll]] for (uint i = 0; i < n; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
  }
  return sums[0];
}

// Rows [begin, end) of one sequence. The lane's query is one of `row` and `head`, and among those rows
// or not.
void attend(uint begin, uint end, uint row, uint head, bool among) {
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

  // Merged, and of a chunk. What is not an array is of the lane's query.
  float most = kSinks != 0 ? sinks.v[head] : kNone;
  float sum = kSinks != 0 ? 1.0 : 0.0;
  float mix[kMixes];
  float chunk_most = kNone;
  float chunk_sum[kScores];
  float chunk_mix[kMixes];
  [[unroll]] for (uint o = 0; o < kMixes; ++o) mix[o] = chunk_mix[o] = 0;
  [[unroll]] for (uint o = 0; o < kScores; ++o) chunk_sum[o] = 0;

  uint next_chunk = pages_of_chunk;  // the query's page that begins it
  uint page = first_page;
  [[dont_unroll]] do {
    const uint start = page * kPageTokens;
    const uint p = page - first / kPageTokens;  // the query's: huge before its first
    const bool here = among && p < pages;
    // Of the page's tokens it sees those from `early` on, `count` of them.
    const uint early = first > start ? first - start : 0;
    const uint count = here ? min(slot - start + 1, kPageTokens) - early : 0;
    const uint64_t memory = page_of(step.kinds[kind], sequence, start);

    float score[kScores];
    [[unroll]] for (uint o = 0; o < kScores; ++o) score[o] = 0;
    score_page(memory + k_offset + kv_head * kPageTokens * k_row, query, score);
    float now = chunk_most;
    [[unroll]] for (uint r = 0; r < kQueries; ++r) {
      const uint early_r = subgroupBroadcast(early, r);
      const uint count_r = subgroupBroadcast(count, r);
      const int own_slot_r = subgroupBroadcast(own_slot, r);
      const float slope_r = subgroupBroadcast(slope, r);
      float largest = kNone;
      [[unroll]] for (uint n = 0; n < kTokens; ++n) {
        float s = score[r * kTokens + n] * scale;
        if (kAlibi != 0) s = fma(-slope_r, abs(float(own_slot_r - int(start + token(n)))), s);
        if (softcap > 0) s = softcap * tanh_of(s / softcap);
        if (token(n) - early_r >= count_r) s = kNone;
        score[r * kTokens + n] = s;
        largest = max(largest, s);
      }
      largest = subgroupMax(largest);
      if (lane == r) now = max(now, largest);
    }
    const float shrink = here ? exp_of(chunk_most - now) : 1.0;
    chunk_most = now;
    [[unroll]] for (uint r = 0; r < kQueries; ++r) {
      const uint early_r = subgroupBroadcast(early, r);
      const uint count_r = subgroupBroadcast(count, r);
      const float now_r = subgroupBroadcast(now, r);
      const float shrink_r = subgroupBroadcast(shrink, r);
      [[unroll]] for (uint n = 0; n < kTokens; n += 2) {
        float weight[2];
        [[unroll]] for (uint j = 0; j < 2; ++j) {
          const uint o = r * kTokens + n + j;
          const bool seen = token(n + j) - early_r < count_r;
          const float of_seen = exp_of(score[o] - now_r);
          chunk_sum[o] = fma(chunk_sum[o], shrink_r, seen ? of_seen : 0.0);
          weight[j] = seen ? of_seen : -1.0;
        }
        weights[(r * kPageTokens + token(n)) / 2] =
            packUint2x32(floatBitsToUint(vec2(weight[0], weight[1])));
      }
      [[unroll]] for (uint n = 0; n < kMix; ++n) chunk_mix[r * kMix + n] *= shrink_r;
    }
    subgroupMemoryBarrierShared();
    mix_page(memory + v_offset + kv_head * kPageTokens * v_row,
             min(last_slot - start + 1, kPageTokens), chunk_mix);
    subgroupMemoryBarrierShared();

    const bool ends = here && (p + 1 == next_chunk || p + 1 == pages);
    float merged_most = most;
    float merged_sum = sum;
    float keep, add;
    merge(merged_most, merged_sum, chunk_most, tree_sum(chunk_sum), keep, add);
    most = ends ? merged_most : most;
    sum = ends ? merged_sum : sum;
    chunk_most = ends ? kNone : chunk_most;
    next_chunk = ends ? p + 1 + pages_of_chunk : next_chunk;
    [[unroll]] for (uint r = 0; r < kQueries; ++r) {
      const bool ends_r = subgroupBroadcast(ends ? 1 : 0, r) != 0;
      const float keep_r = subgroupBroadcast(keep, r);
      const float add_r = subgroupBroadcast(add, r);
      [[unroll]] for (uint n = 0; n < kTokens; ++n) {
        chunk_sum[r * kTokens + n] = ends_r ? 0.0 : chunk_sum[r * kTokens + n];
      }
      [[unroll]] for (uint n = 0; n < kMix; ++n) {
        const uint o = r * kMix + n;
        const float merged = merged_mix(mix[o], keep_r, chunk_mix[o], add_r);
        mix[o] = ends_r ? merged : mix[o];
        chunk_mix[o] = ends_r ? 0.0 : chunk_mix[o];
      }
    }
    ++page;
  } while (page <= last_slot / kPageTokens);

  const uint to = at(y_strides, head, row);
  [[unroll]] for (uint r = 0; r < kQueries; ++r) {
    const bool among_r = subgroupBroadcast(among ? 1 : 0, r) != 0;
    const uint to_r = subgroupBroadcast(to, r);
    const float sum_r = subgroupBroadcast(sum, r);
    [[unroll]] for (uint n = 0; n < kMix; ++n) {
      if (among_r && element(n) < kValueDim) y.v[to_r + element(n)] = mix[r * kMix + n] / sum_r;
    }
  }
}

void main() {
  lane = gl_SubgroupInvocationID;
  const uint queries = step.rows[0] * group;
  const uint first_query = gl_WorkGroupID.y * kLanes;
  if (first_query >= queries) return;
  const uint query = min(first_query + lane, queries - 1);
  const uint row = query / group;
  const uint head = gl_WorkGroupID.x * group + query % group;
  const uint end = (min(first_query + kLanes, queries) - 1) / group + 1;
  // Runs of rows of one sequence.
  uint begin = first_query / group;
  [[dont_unroll]] do {
    uint next = begin + 1;
    while (next < end && sequences.v[next] == sequences.v[begin]) ++next;
    attend(begin, next, row, head,
           row >= begin && row < next && first_query + lane < queries);
    begin = next;
  } while (begin < end);
}
