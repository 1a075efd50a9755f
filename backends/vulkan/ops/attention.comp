#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/math.glsl"
#include "backends/vulkan/glsl/reduce.glsl"
#include "backends/vulkan/glsl/cache.glsl"

// One workgroup a row and head. It goes through the keys page by page, from the first in sight on:
// lane t has the key at place t of a page; of the values each lane has elements lane, lane + 64, …
// The weights of a page are relative to the largest score so far (Milakov and Gimelshein 2018).
layout(constant_id = 1) const uint kValueType = 0;
layout(constant_id = 2) const uint kKeyDim = 1;
layout(constant_id = 3) const uint kValueDim = 1;
layout(constant_id = 4) const uint kAcross = 0;
layout(constant_id = 5) const uint kSinks = 0;

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 q;
  I32 slots, sequences;
  F32 sinks, y;
  Strides q_strides, y_strides;
  uint group;  // query heads of a key's head
  uint kind;
  uint k_offset, v_offset, k_row, v_row;
  float scale, softcap;
  uint window;
  uint key_dim;  // as kKeyDim, but no constant: drivers would unroll loops over it
};

const uint kOwn = (kValueDim + kLanes - 1) / kLanes;

shared float query[kKeyDim];
shared float weights[2][kLanes];

float element_of(uint type, uint64_t row, uint i) {
  if (type == kF32) return F32(row).v[i];
  if (type == kF16) return half_of(uint(U16(row).v[i]));
  if (type == kBf16) return uintBitsToFloat(uint(U16(row).v[i]) << 16);
  if (type == kQ8_0) {
    const uint64_t block = row + i / 32 * 34;
    return float(int(uint(U8(block).v[2 + i % 32]) << 24) >> 24) * half_of(uint(U16(block).v[0]));
  }
  const uint64_t block = row + i / 32 * 18;
  const uint level = (uint(U8(block).v[2 + i % 16]) >> (i % 32 / 16 * 4)) & 15;
  return float(int(level) - 8) * half_of(uint(U16(block).v[0]));
}

void main() {
  const uint head = gl_WorkGroupID.x;
  const uint r = gl_WorkGroupID.y;
  if (r >= step.rows[0]) return;
  const uint lane = gl_LocalInvocationID.x;
  const uint kv_head = head / group;
  const uint slot = uint(slots.v[r]);
  const uint sequence = uint(sequences.v[r]);
  const uint first = window > 0 && slot + 1 > window ? slot + 1 - window : 0;

  for (uint i = lane; i < kKeyDim; i += kLanes) query[i] = q.v[at(q_strides, head, r) + i];
  barrier();

  float most = kSinks != 0 ? sinks.v[head] : uintBitsToFloat(0xff800000u);
  float sum = kSinks != 0 && lane == 0 ? 1.0 : 0.0;
  float mix[kOwn];
  [[unroll]] for (uint i = 0; i < kOwn; ++i) mix[i] = 0;

  uint turn = 0;
  for (uint begin = first / kPageTokens * kPageTokens; begin <= slot; begin += kPageTokens) {
    const uint64_t page = page_of(step.kinds[kind], sequence, begin);
    const bool seen = begin + lane >= first && begin + lane <= slot;
    float score = uintBitsToFloat(0xff800000u);
    if (seen) {
      float dot_product = 0;
      if (kAcross != 0) {
        const uint64_t keys = page + k_offset + kv_head * kPageTokens * k_row;
        [[dont_unroll]] for (uint i = 0; i < key_dim; ++i) {
          dot_product = fma(query[i], element_of(kCacheType, keys, i * kPageTokens + lane),
                            dot_product);
        }
      } else {
        const uint64_t key = page + k_offset + (kv_head * kPageTokens + lane) * k_row;
        [[dont_unroll]] for (uint i = 0; i < key_dim; ++i) {
          dot_product = fma(query[i], element_of(kCacheType, key, i), dot_product);
        }
      }
      score = dot_product * scale;
      if (softcap > 0) score = softcap * tanh_of(score / softcap);
    }
    const float now = max(most, max_of(score, turn));
    const float shrink = exp_of(most - now);
    const float weight = seen ? exp_of(score - now) : 0.0;
    most = now;
    sum = fma(sum, shrink, weight);
    weights[turn][lane] = weight;
    barrier();
    const uint end = min(kPageTokens, slot - begin + 1);
    const uint start = begin < first ? first - begin : 0;
    const uint64_t values = page + v_offset + kv_head * kPageTokens * v_row;
    [[unroll]] for (uint i = 0; i < kOwn; ++i) {
      const uint d = lane + i * kLanes;
      float part = mix[i] * shrink;
      if (d < kValueDim) {
        [[dont_unroll]] for (uint t = start; t < end; ++t) {
          part = fma(weights[turn][t], element_of(kValueType, values + t * v_row, d), part);
        }
      }
      mix[i] = part;
    }
    turn ^= 1;
  }
  // The last page's own reductions are over, but other lanes may still read theirs.
  barrier();
  const float total = sum_of(sum, 0);
  [[unroll]] for (uint i = 0; i < kOwn; ++i) {
    const uint d = lane + i * kLanes;
    if (d < kValueDim) y.v[at(y_strides, head, r) + d] = mix[i] / total;
  }
}
