#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/cache.glsl"
#include "backends/vulkan/glsl/math.glsl"
#include "backends/vulkan/glsl/merge.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

// A workgroup computes kHeads heads of a row, 64 keys at a time: those of the window, then those of
// blocks. A lane has a key; of the values each lane has elements lane, lane + 64, … Within a chunk
// (merge.glsl) weights are relative to the largest score so far (Milakov and Gimelshein 2018). Every lane
// sums all weights, in the same order. With kSplit each workgroup along z computes one chunk and leaves
// it in memory to pooled_merge.comp.
const uint kLanes = 64;
layout(local_size_x = kLanes) in;
#include "backends/vulkan/glsl/constants.glsl"
#include "backends/vulkan/ops/pooled_attention.def"
#include "backends/vulkan/glsl/pooled.glsl"

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 q;
  I32 slots, sequences;
  F32 sinks, y;
  I32 chosen;
  F32 chunks;  // f32 [kValueDim + 2, kChunks, heads, rows]: sum, score and mix
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
shared float maxima[kHeads * kLanes];  // of each subgroup
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
  const PooledSeen seen = pooled_seen(slot, window);
  const uint pages = pages_of(seen);
  const uint pages_of_chunk = chunk_pages(pages);
  const uint chunk = kSplit != 0 ? gl_WorkGroupID.z : 0;
  if (chunk * pages_of_chunk >= pages) return;
  for (uint i = lane; i < kHeads * kKeyDim; i += kLanes) {
    const uint head = min(first_head + i / kKeyDim, heads - 1);
    query[i] = q.v[at(q_strides, head, r) + i % kKeyDim] * scale;
  }
  // Merged, and of a chunk.
  float most[kHeads];
  float sum[kHeads];
  float mix[kHeads * kOwn];
  float chunk_most[kHeads];
  float chunk_sum[kHeads];
  float chunk_mix[kHeads * kOwn];
  [[unroll]] for (uint h = 0; h < kHeads; ++h) {
    most[h] = kSinks != 0 ? sinks.v[min(first_head + h, heads - 1)] : kNone;
    sum[h] = kSinks != 0 ? 1.0 : 0.0;
  }
  [[unroll]] for (uint i = 0; i < kHeads * kOwn; ++i) mix[i] = 0;

  uint next_chunk = 0;  // the page that begins it
  for (uint p = chunk * pages_of_chunk; p < pages; ++p) {
    if (p >= next_chunk) {
      next_chunk = p + pages_of_chunk;
      [[unroll]] for (uint h = 0; h < kHeads; ++h) {
        chunk_most[h] = kNone;
        chunk_sum[h] = 0;
      }
      [[unroll]] for (uint i = 0; i < kHeads * kOwn; ++i) chunk_mix[i] = 0;
    }
    const uint start = p * kLanes;
    const uint here = min(seen.slots + seen.blocks - start, kLanes);
    float scores[kHeads];
    [[unroll]] for (uint h = 0; h < kHeads; ++h) scores[h] = kNone;
    barrier();  // the queries are there; what is shared has been read
    if (lane < here) {
      const uint i = start + lane;
      const bool near = i < seen.slots;
      const uint layer = near ? 0 : 1;
      uint of_key = seen.begin + i;
      if (!near) {
        uint block = i - seen.slots;
        if (kChosen != 0) block = uint(chosen.v[r * chosen_stride + block]);
        of_key = (block + 1) * kTokens - 1;
      }
      const uint64_t page = page_of(step.kinds[kind[layer]], sequence, of_key);
      const uint row = of_key % kPageTokens / (near ? 1 : kTokens);
      const bool across = near && kElement != 0;
      const uint64_t key = page + k_offset[layer] + row * (across ? kElement : k_row);
      values[lane] = page + v_offset[layer] + row * v_row;
      score(key, across, scores);
    }
    [[unroll]] for (uint h = 0; h < kHeads; ++h) {
      const float largest = subgroupMax(scores[h]);
      if (subgroupElect()) maxima[h * kLanes + gl_SubgroupID] = largest;
    }
    barrier();
    float shrink[kHeads];
    [[unroll]] for (uint h = 0; h < kHeads; ++h) {
      float now = chunk_most[h];
      for (uint s = 0; s < gl_NumSubgroups; ++s) now = max(now, maxima[h * kLanes + s]);
      shrink[h] = exp_of(chunk_most[h] - now);
      weights[h * kLanes + lane] = lane < here ? exp_of(scores[h] - now) : 0.0;
      chunk_most[h] = now;
    }
    barrier();
    [[unroll]] for (uint h = 0; h < kHeads; ++h) {
      precise float all = 0;
      for (uint j = 0; j < here; ++j) all += weights[h * kLanes + j];
      chunk_sum[h] = fma(chunk_sum[h], shrink[h], all);
      [[unroll]] for (uint o = 0; o < kOwn; ++o) chunk_mix[h * kOwn + o] *= shrink[h];
    }
    for (uint j = 0; j < here; ++j) {
      const uint64_t value = values[j];
      [[unroll]] for (uint o = 0; o < kOwn; ++o) {
        const uint i = o * kLanes + lane;
        const float v = i < kValueDim ? element_of(kValueType, value, i) : 0.0;
        [[unroll]] for (uint h = 0; h < kHeads; ++h) {
          chunk_mix[h * kOwn + o] = fma(weights[h * kLanes + j], v, chunk_mix[h * kOwn + o]);
        }
      }
    }
    if (p + 1 < next_chunk && p + 1 < pages) continue;

    if (kSplit != 0) {
      [[unroll]] for (uint h = 0; h < kHeads; ++h) {
        if (first_head + h >= heads) break;
        const uint to = ((r * heads + first_head + h) * kChunks + chunk) * (kValueDim + 2);
        if (lane == 0) {
          chunks.v[to] = chunk_sum[h];
          chunks.v[to + 1] = chunk_most[h];
        }
        [[unroll]] for (uint o = 0; o < kOwn; ++o) {
          const uint i = o * kLanes + lane;
          if (i < kValueDim) chunks.v[to + 2 + i] = chunk_mix[h * kOwn + o];
        }
      }
      return;
    }
    [[unroll]] for (uint h = 0; h < kHeads; ++h) {
      float keep, add;
      merge(most[h], sum[h], chunk_most[h], chunk_sum[h], keep, add);
      [[unroll]] for (uint o = 0; o < kOwn; ++o) {
        mix[h * kOwn + o] = merged_mix(mix[h * kOwn + o], keep, chunk_mix[h * kOwn + o], add);
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
