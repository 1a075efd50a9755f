#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/cache.glsl"

// A workgroup scores a part of a row's keys, a lane each of kLanes that follow one another, and keeps
// the best. Of a block there is one key, at its last slot; where heads choose for themselves, the
// lanes score the slots of a block, and the highest counts. With several parts
// select_slots_merge.comp takes the best of these.
const uint kLanes = 64;
layout(local_size_x = kLanes) in;
#include "backends/vulkan/glsl/constants.glsl"
#include "backends/vulkan/ops/select_slots.def"
#include "backends/vulkan/glsl/best.glsl"

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 q, weights;
  I32 slots, sequences, y;
  uint64_t buffers;  // [1 + kRoom, kParts, lists, rows]
  Strides q_strides;
  uint weights_stride, y_stride;
  uint heads, dim;
  uint kind;
  uint k_offset, k_row;
};

const uint kTogether = 8;  // heads

// What the key at `row` scores; across: it is every kPageTokens-th element from `token` on.
float score(uint64_t row, uint token, uint r) {
  float sum = 0;
  for (uint h = 0; h < heads; h += kTogether) {
    uint from[kTogether];
    float products[kTogether];
    [[unroll]] for (uint j = 0; j < kTogether; ++j) {
      from[j] = at(q_strides, h + j < heads ? h + j : h, r);
      products[j] = 0;
    }
    [[dont_unroll]] for (uint i = 0; i < dim; i += 4) {
      vec4 k;
      if (kAcross != 0) {
        [[unroll]] for (uint e = 0; e < 4; ++e) {
          k[e] = i + e < dim ? element_of(kKeyType, row, (i + e) * kPageTokens + token) : 0.0;
        }
      } else {
        k = four_of(kKeyType, kWhole != 0, row, i, dim);
      }
      [[unroll]] for (uint e = 0; e < 4; ++e) {
        if (kWhole == 0 && i + e >= dim) break;
        [[unroll]] for (uint j = 0; j < kTogether; ++j) {
          products[j] = fma(q.v[from[j] + i + e], k[e], products[j]);
        }
      }
    }
    [[unroll]] for (uint j = 0; j < kTogether; ++j) {
      if (h + j >= heads) break;
      const float weight = kWeighted != 0 ? weights.v[r * weights_stride + h + j] : 1.0;
      sum = fma(weight, max(products[j], 0.0), sum);
    }
  }
  return sum;
}

shared float highest[kLanes];

// What the query at `from` gives to the key at `row`, as score() takes it.
float product_of(uint64_t row, uint token, uint from) {
  float sum = 0;
  [[dont_unroll]] for (uint i = 0; i < dim; ++i) {
    const uint place = kAcross != 0 ? i * kPageTokens + token : i;
    sum = fma(q.v[from + i], element_of(kKeyType, row, place), sum);
  }
  return sum;
}

// The highest score that a head gives to the slots of a block; the same for all lanes.
float score_of_block(uint sequence, uint block, uint from) {
  const uint lane = gl_LocalInvocationIndex;
  float own = uintBitsToFloat(0xff800000u);
  for (uint i = lane; i < kBlock; i += kLanes) {
    const uint slot = block * kBlock + i;
    const uint token = slot % kPageTokens;
    const uint64_t keys = page_of(step.kinds[kind], sequence, slot) + k_offset;
    own = max(own, product_of(kAcross != 0 ? keys : keys + token * k_row, token, from));
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
  const uint runs = kByHead != 0 ? blocks : (blocks + kLanes - 1) / kLanes;
  const uint of_part = (runs + kParts - 1) / kParts;
  const uint sequence = uint(sequences.v[r]);
  const uint own = r * gl_NumWorkGroups.z + list;
  start_best(buffers + uint64_t(own * kParts + part) * kBufferBytes);
  for (uint run = part * of_part; run < min(part * of_part + of_part, runs); ++run) {
    uint64_t number = 0;
    if (kByHead != 0) {
      const float most = score_of_block(sequence, run, at(q_strides, list, r));
      number = lane == 0 ? ranked(most, (run + 1) * kBlock - 1) : 0;
    } else {
      const uint slot = (run * kLanes + lane + 1) * kBlock - 1;
      if (slot <= last) {
        const uint token = slot % kPageTokens / kTokens;
        const uint64_t keys = page_of(step.kinds[kind], sequence, slot) + k_offset;
        number = ranked(score(kAcross != 0 ? keys : keys + token * k_row, token, r), slot);
      }
    }
    add_best(number);
  }
  if (kParts == 1) {
    write_best(y, to, last);
    return;
  }
  trim_best();
  if (lane == 0) best.v[0] = best_size;
}
