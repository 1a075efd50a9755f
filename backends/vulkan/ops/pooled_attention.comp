#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/cache.glsl"
#include "backends/vulkan/glsl/math.glsl"

// A workgroup computes kHeads heads of a row, 64 keys at a time: those of the window, then those of
// blocks. A lane has a key; of the values each lane has elements lane, lane + 64, … Weights are
// relative to the largest score so far (Milakov and Gimelshein 2018). Every lane sums all weights, in
// the same order.
const uint kLanes = 64;
layout(local_size_x = kLanes) in;
#include "backends/vulkan/glsl/constants.glsl"
#include "backends/vulkan/ops/pooled_attention.def"

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 q;
  I32 slots, sequences;
  F32 sinks, y;
  I32 chosen;
  Strides q_strides, y_strides;
  uint kind[2], k_offset[2], v_offset[2];  // of slots, of blocks
  uint k_row, v_row;                       // bytes
  uint heads;
  uint window;
  uint chosen_stride;
  float scale;
};

const uint kOwn = (kValueDim + kLanes - 1) / kLanes;

#define kNone uintBitsToFloat(0xff800000u)

shared float query[kHeads * kKeyDim];
shared float weights[kHeads * kLanes];
shared uint64_t values[kLanes];

// The scores of a key. `across`: its elements lie a page apart.
void score(uint64_t key, bool across, out float scores[kHeads]) {
  [[unroll]] for (uint h = 0; h < kHeads; ++h) scores[h] = 0;
  [[dont_unroll]] for (uint i = 0; i < kKeyDim; i += 4) {
    vec4 k = vec4(0);
    if (across) {
      for (uint e = 0; e < 4 && i + e < kKeyDim; ++e) {
        k[e] = element_of(kKeyType, key, (i + e) * kPageTokens);
      }
    } else {
      k = four_of(kKeyType, kKeysWhole != 0, key, i, kKeyDim);
    }
    [[unroll]] for (uint e = 0; e < 4; ++e) {
      if (i + e >= kKeyDim) break;
      [[unroll]] for (uint h = 0; h < kHeads; ++h) {
        scores[h] = fma(query[h * kKeyDim + i + e], k[e], scores[h]);
      }
    }
  }
}

void main() {
  const uint r = gl_WorkGroupID.y;
  if (r >= step.rows[0]) return;
  const uint lane = gl_LocalInvocationIndex;
  const uint first_head = gl_WorkGroupID.x * kHeads;
  const uint slot = uint(slots.v[r]);
  const uint sequence = uint(sequences.v[r]);
  const uint begin = slot + 1 > window ? slot + 1 - window : 0;
  const uint of_window = slot + 1 - begin;
  uint blocks = (slot + 1) / kTokens;
  if (kChosen != 0) blocks = min(blocks, kChosen);
  const uint count = of_window + blocks;
  for (uint i = lane; i < kHeads * kKeyDim; i += kLanes) {
    const uint head = min(first_head + i / kKeyDim, heads - 1);
    query[i] = q.v[at(q_strides, head, r) + i % kKeyDim] * scale;
  }
  float most[kHeads];
  float sum[kHeads];
  float mix[kHeads * kOwn];
  [[unroll]] for (uint h = 0; h < kHeads; ++h) {
    most[h] = kSinks != 0 ? sinks.v[min(first_head + h, heads - 1)] : kNone;
    sum[h] = kSinks != 0 ? 1.0 : 0.0;
  }
  [[unroll]] for (uint i = 0; i < kHeads * kOwn; ++i) mix[i] = 0;

  for (uint start = 0; start < count; start += kLanes) {
    const uint here = min(count - start, kLanes);
    barrier();  // the queries are there; what is shared has been read
    if (lane < here) {
      const uint i = start + lane;
      const bool near = i < of_window;
      const uint layer = near ? 0 : 1;
      uint of_key = begin + i;
      if (!near) {
        uint block = i - of_window;
        if (kChosen != 0) block = uint(chosen.v[r * chosen_stride + block]);
        of_key = (block + 1) * kTokens - 1;
      }
      const uint64_t page = page_of(step.kinds[kind[layer]], sequence, of_key);
      const uint row = of_key % kPageTokens / (near ? 1 : kTokens);
      const bool across = near && kElement != 0;
      const uint64_t key = page + k_offset[layer] + row * (across ? kElement : k_row);
      values[lane] = page + v_offset[layer] + row * v_row;
      float scores[kHeads];
      score(key, across, scores);
      [[unroll]] for (uint h = 0; h < kHeads; ++h) weights[h * kLanes + lane] = scores[h];
    }
    barrier();
    float own[kHeads];
    float shrink[kHeads];
    [[unroll]] for (uint h = 0; h < kHeads; ++h) {
      float now = most[h];
      for (uint j = 0; j < here; ++j) now = max(now, weights[h * kLanes + j]);
      shrink[h] = exp_of(most[h] - now);
      own[h] = lane < here ? exp_of(weights[h * kLanes + lane] - now) : 0.0;
      most[h] = now;
    }
    barrier();  // the scores have been read
    [[unroll]] for (uint h = 0; h < kHeads; ++h) weights[h * kLanes + lane] = own[h];
    barrier();
    [[unroll]] for (uint h = 0; h < kHeads; ++h) {
      precise float all = 0;
      for (uint j = 0; j < here; ++j) all += weights[h * kLanes + j];
      sum[h] = fma(sum[h], shrink[h], all);
      [[unroll]] for (uint o = 0; o < kOwn; ++o) mix[h * kOwn + o] *= shrink[h];
    }
    for (uint j = 0; j < here; ++j) {
      const uint64_t value = values[j];
      [[unroll]] for (uint o = 0; o < kOwn; ++o) {
        const uint i = o * kLanes + lane;
        const float v = i < kValueDim ? element_of(kValueType, value, i) : 0.0;
        [[unroll]] for (uint h = 0; h < kHeads; ++h) {
          mix[h * kOwn + o] = fma(weights[h * kLanes + j], v, mix[h * kOwn + o]);
        }
      }
    }
  }
  [[unroll]] for (uint h = 0; h < kHeads; ++h) {
    if (first_head + h >= heads) break;
    [[unroll]] for (uint o = 0; o < kOwn; ++o) {
      const uint i = o * kLanes + lane;
      if (i < kValueDim) y.v[at(y_strides, first_head + h, r) + i] = mix[h * kOwn + o] / sum[h];
    }
  }
}
