#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/cache.glsl"

// A workgroup scores a part of a row's keys and keeps the best. A lane scores kKeys keys at a time with
// queries in shared memory, kTogether at a time. Of a block there is one key, at its last slot; where heads
// choose for themselves, the lanes score the slots of a block, and the highest counts. With several
// parts select_slots_merge.comp takes the best of these.
const uint kLanes = 64;  // lists.glsl: kKeyLanes
layout(local_size_x = kLanes) in;
#include "backends/vulkan/glsl/constants.glsl"
#define WORKGROUP_SIZE(id, field, value)
#include "backends/vulkan/ops/select_slots.def"
#include "backends/vulkan/glsl/best.glsl"

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 q, weights;
  I32 slots, sequences, y;
  uint64_t buffers;  // u64 [1 + kRoom, kParts, lists, rows]
  Strides q_strides;
  uint weights_stride, y_stride;
  uint heads;
  uint kind;
  uint k_offset, k_row;
};

const uint kTogether = 8;  // heads
const uint kFours = (kDim + 3) / 4;

shared vec4 queries[(kByHead != 0 ? 1 : kTogether) * kFours];
shared float highest[kLanes];

// Brings `count` queries of a row, from `first` on, to shared memory: zeros behind the last one and
// behind the elements of each.
void bring_queries(uint first, uint count, uint r) {
  for (uint i = gl_LocalInvocationIndex; i < count * kFours; i += kLanes) {
    const uint head = first + i / kFours;
    vec4 four = vec4(0);
    for (uint e = 0; e < 4 && head < heads; ++e) {
      const uint element = i % kFours * 4 + e;
      if (element < kDim) four[e] = q.v[at(q_strides, head, r) + element];
    }
    queries[i] = four;
  }
}

// Elements i to i + 3 of the key at `row`, zeros behind the last one; across: it is every
// kPageTokens-th element from `token` on.
vec4 four_of_key(uint64_t row, uint token, uint i) {
  if (kAcross == 0) return four_of(kKeyType, kWhole != 0, row, i, kDim);
  vec4 k = vec4(0);
  for (uint e = 0; e < 4; ++e) {
    if (i + e < kDim) k[e] = element_of(kKeyType, row, (i + e) * kPageTokens + token);
  }
  return k;
}

// What keys score.
void score(uint64_t row[kKeys], uint token[kKeys], uint r, out float sums[kKeys]) {
  [[unroll]] for (uint j = 0; j < kKeys; ++j) sums[j] = 0;
  for (uint first = 0; first < heads; first += kTogether) {
    barrier();  // the queries before have been read
    bring_queries(first, kTogether, r);
    barrier();
    float products[kKeys * kTogether];
    [[unroll]] for (uint i = 0; i < kKeys * kTogether; ++i) products[i] = 0;
    [[dont_unroll]] for (uint i = 0; i < kFours; ++i) {
      vec4 k[kKeys];
      [[unroll]] for (uint j = 0; j < kKeys; ++j) k[j] = four_of_key(row[j], token[j], i * 4);
      [[unroll]] for (uint h = 0; h < kTogether; ++h) {
        const vec4 query = queries[h * kFours + i];
        [[unroll]] for (uint j = 0; j < kKeys; ++j) {
          [[unroll]] for (uint e = 0; e < 4; ++e) {
            products[j * kTogether + h] = fma(query[e], k[j][e], products[j * kTogether + h]);
          }
        }
      }
    }
    [[unroll]] for (uint h = 0; h < kTogether; ++h) {
      if (first + h >= heads) break;
      const float weight = kWeighted != 0 ? weights.v[r * weights_stride + first + h] : 1.0;
      [[unroll]] for (uint j = 0; j < kKeys; ++j) {
        sums[j] = fma(weight, max(products[j * kTogether + h], 0.0), sums[j]);
      }
    }
  }
}

// What the query in shared memory gives to the key at `row`.
float product_of(uint64_t row, uint token) {
  float sum = 0;
  [[dont_unroll]] for (uint i = 0; i < kFours; ++i) {
    const vec4 k = four_of_key(row, token, i * 4);
    [[unroll]] for (uint e = 0; e < 4; ++e) sum = fma(queries[i][e], k[e], sum);
  }
  return sum;
}

// The highest score that a head gives to the slots of a block; the same for all lanes.
float score_of_block(uint sequence, uint block) {
  const uint lane = gl_LocalInvocationIndex;
  float own = uintBitsToFloat(0xff800000u);
  for (uint i = lane; i < kBlock; i += kLanes) {
    const uint slot = block * kBlock + i;
    const uint token = slot % kPageTokens;
    const uint64_t keys = page_of(step.kinds[kind], sequence, slot) + k_offset;
    own = max(own, product_of(kAcross != 0 ? keys : keys + token * k_row, token));
  }
  barrier();  // those of the block before have been read
  highest[lane] = own;
  barrier();
  for (uint i = 0; i < kLanes; ++i) own = max(own, highest[i]);
  return own;
}

void main() {
  const uint lane = gl_LocalInvocationIndex;
  const uint part = gl_WorkGroupID.x;
  const uint r = gl_WorkGroupID.y;
  const uint list = gl_WorkGroupID.z;
  if (r >= step.rows[0]) return;
  const uint last = uint(slots.v[r]);
  const uint to = r * y_stride + list * kMost;
  if (sees_all(last)) {
    const uint seen = seen_by(last);
    for (uint i = lane; i < kMost && part == 0; i += kLanes) {
      y.v[to + i] = i < seen ? int(i) : -1;
    }
    return;
  }
  const uint blocks = blocks_of(last);
  const uint runs = runs_of(last);
  const uint of_part = (runs + kParts - 1) / kParts;
  const uint sequence = uint(sequences.v[r]);
  const uint own = r * gl_NumWorkGroups.z + list;
  start_best(buffers + uint64_t(own * kParts + part) * kBufferBytes);
  if (kByHead != 0) {
    bring_queries(list, 1, r);
    barrier();
  }
  for (uint run = part * of_part; run < min(part * of_part + of_part, runs); ++run) {
    if (kByHead != 0) {
      const float most = score_of_block(sequence, run);
      add_best(lane == 0 ? ranked(most, (run + 1) * kBlock - 1) : 0);
      continue;
    }
    uint64_t row[kKeys];
    uint token[kKeys];
    [[unroll]] for (uint j = 0; j < kKeys; ++j) {
      const uint block = min((run * kKeys + j) * kLanes + lane, blocks - 1);
      const uint slot = (block + 1) * kBlock - 1;
      token[j] = slot % kPageTokens / kTokens;
      row[j] = page_of(step.kinds[kind], sequence, slot) + k_offset;
      if (kAcross == 0) row[j] += token[j] * k_row;
    }
    float sums[kKeys];
    score(row, token, r, sums);
    [[unroll]] for (uint j = 0; j < kKeys; ++j) {
      const uint block = (run * kKeys + j) * kLanes + lane;
      add_best(block < blocks ? ranked(sums[j], (block + 1) * kBlock - 1) : 0);
    }
  }
  if (kParts == 1) {
    write_best(y, to, last);
    return;
  }
  trim_best();
  if (lane == 0) best.v[0] = best_size;
}
