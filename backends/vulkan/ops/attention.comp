#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/math.glsl"
#include "backends/vulkan/glsl/reduce.glsl"
#include "backends/vulkan/glsl/cache.glsl"
#include "backends/vulkan/glsl/merge.glsl"

// A workgroup computes kHeads heads of a row that share their keys, page by page: lane t has the key
// at place t of a page; of the values each lane has elements lane, lane + 64, … Within a chunk
// (merge.glsl) the weights of a page are relative to the largest score so far (Milakov and
// Gimelshein 2018). With kSplit each workgroup along z computes one chunk and leaves it in memory to
// attention_merge.comp.
#define WORKGROUP_SIZE(id, field, value)
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
  F32 chunks;    // f32 [kValueDim + 2, kChunks, heads, rows]: sum, score and mix
  // i32 [kChosen, kChosenLists, rows], if there are such lists: their places are as slots then. With
  // biases f32 [heads], the slopes.
  I32 chosen;
};

const uint kOwn = (kValueDim + kLanes - 1) / kLanes;
const uint kTogether = 32;  // loads that wait for none of each other

#define kNone uintBitsToFloat(0xff800000u)

shared float query[kHeads * kKeyDim];
shared float weights[2][kHeads * kLanes];
shared float maxima[2][kHeads * kLanes];  // of each subgroup
shared uint64_t listed[2][kLanes];        // values of the slots of a list

float eight(float x[8]) { return ((x[0] + x[1]) + (x[2] + x[3])) + ((x[4] + x[5]) + (x[6] + x[7])); }

// Sums over the tokens of a page, the same for all: neighbours added, then neighbouring sums, …: an
// order that is no device's own, and which attention_tile.comp has as well.
void tree_sums(float x[kHeads], out float sums[kHeads]) {
  const uint lane = gl_LocalInvocationIndex;
  float some[8];
  barrier();  // others may still read the weights
  [[unroll]] for (uint h = 0; h < kHeads; ++h) weights[0][h * kLanes + lane] = x[h];
  barrier();
  if (lane < kHeads * 8) {
    [[unroll]] for (uint i = 0; i < 8; ++i) some[i] = weights[0][lane * 8 + i];
    weights[1][lane] = eight(some);
  }
  barrier();
  [[unroll]] for (uint h = 0; h < kHeads; ++h) {
    [[unroll]] for (uint i = 0; i < 8; ++i) some[i] = weights[1][h * 8 + i];
    sums[h] = eight(some);
  }
}

void main() {
  const uint first_head = gl_WorkGroupID.x * kHeads;
  const uint r = kFirstRow + gl_WorkGroupID.y;
  if (r >= step.rows[kUpTo]) return;
  const uint lane = gl_LocalInvocationID.x;
  const uint kv_head = first_head / group;
  const uint own_slot = uint(slots.v[r]);
  const uint slot = kChosen != 0 ? last_chosen(own_slot, kChosen, kChosenBlock, kChosenShift) : uint(last_seen.v[r]);
  const uint sequence = uint(sequences.v[r]);
  const uint first = kChosen != 0 ? 0 : first_seen(own_slot, window);
  const uint pages = pages_seen(first, slot);
  const uint pages_of_chunk = chunk_pages(pages);
  uint chunk = kSplit != 0 ? gl_WorkGroupID.z : 0;
  if (chunk * pages_of_chunk >= pages) return;

  for (uint i = lane; i < kHeads * kKeyDim; i += kLanes) {
    query[i] = q.v[at(q_strides, first_head + i / kKeyDim, r) + i % kKeyDim];
  }
  barrier();

  // Merged, and of a chunk.
  float most[kHeads];
  float sum[kHeads];
  float mix[kHeads * kOwn];
  float chunk_most[kHeads];
  float chunk_sum[kHeads];
  float chunk_mix[kHeads * kOwn];
  [[unroll]] for (uint h = 0; h < kHeads; ++h) {
    most[h] = kSinks != 0 ? sinks.v[first_head + h] : kNone;
    sum[h] = kSinks != 0 ? 1.0 : 0.0;
  }
  [[unroll]] for (uint i = 0; i < kHeads * kOwn; ++i) mix[i] = 0;

  uint turn = 0;
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
    const uint begin = (first / kPageTokens + p) * kPageTokens;
    const bool seen = begin + lane >= first && begin + lane <= slot;
    uint64_t page;
    uint token = lane;
    if (kChosen != 0) {
      const uint list = r * kChosenLists + (kChosenLists > 1 ? kv_head : 0);
      const uint of_lane = uint(chosen.v[list * kChosen + min(begin + lane, slot)]);
      token = of_lane % kPageTokens;
      page = page_of(step.kinds[kind], sequence, of_lane);
      listed[turn][lane] = page + v_offset + (kv_head * kPageTokens + token) * v_row;
    } else {
      page = page_of(step.kinds[kind], sequence, begin);
    }
    float score[kHeads];
    [[unroll]] for (uint h = 0; h < kHeads; ++h) score[h] = 0;
    if (seen) {
      const uint64_t keys = page + k_offset + kv_head * kPageTokens * k_row;
      const uint64_t own = kAcross != 0 ? keys : keys + token * k_row;
      const uint stride = kAcross != 0 ? kPageTokens : 1;
      const uint from = kAcross != 0 ? token : 0;
      uint i = 0;
      [[dont_unroll]] for (; i + kTogether <= key_dim; i += kTogether) {
        float elements[kTogether];
        [[unroll]] for (uint e = 0; e < kTogether; ++e) {
          elements[e] = element_of(kKeyType, own, (i + e) * stride + from);
        }
        [[unroll]] for (uint e = 0; e < kTogether; ++e) {
          [[unroll]] for (uint h = 0; h < kHeads; ++h) {
            score[h] = fma(query[h * kKeyDim + i + e], elements[e], score[h]);
          }
        }
      }
      [[dont_unroll]] for (; i < key_dim; ++i) {
        const float element = element_of(kKeyType, own, i * stride + from);
        [[unroll]] for (uint h = 0; h < kHeads; ++h) {
          score[h] = fma(query[h * kKeyDim + i], element, score[h]);
        }
      }
    }
    [[unroll]] for (uint h = 0; h < kHeads; ++h) {
      score[h] *= scale;
      if (kAlibi != 0) {
        const float slope = F32(uint64_t(chosen)).v[first_head + h];
        score[h] = fma(-slope, abs(float(int(own_slot) - int(begin + lane))), score[h]);
      }
      if (softcap > 0) score[h] = softcap * tanh_of(score[h] / softcap);
      if (!seen) score[h] = kNone;
      const float largest = subgroupMax(score[h]);
      if (subgroupElect()) maxima[turn][h * kLanes + gl_SubgroupID] = largest;
    }
    barrier();
    float shrink[kHeads];
    [[unroll]] for (uint h = 0; h < kHeads; ++h) {
      float now = chunk_most[h];
      for (uint s = 0; s < gl_NumSubgroups; ++s) now = max(now, maxima[turn][h * kLanes + s]);
      shrink[h] = exp_of(chunk_most[h] - now);
      const float weight = seen ? exp_of(score[h] - now) : 0.0;
      chunk_most[h] = now;
      chunk_sum[h] = fma(chunk_sum[h], shrink[h], weight);
      weights[turn][h * kLanes + lane] = weight;
    }
    barrier();
    const uint end = min(kPageTokens, slot - begin + 1);
    const uint start = begin < first ? first - begin : 0;
    const uint64_t values = page + v_offset + kv_head * kPageTokens * v_row;
    [[unroll]] for (uint i = 0; i < kOwn; ++i) {
      const uint d = lane + i * kLanes;
      float part[kHeads];
      [[unroll]] for (uint h = 0; h < kHeads; ++h) part[h] = chunk_mix[h * kOwn + i] * shrink[h];
      if (d < kValueDim) {
        uint t = start;
        [[dont_unroll]] for (; t + kTogether <= end; t += kTogether) {
          float elements[kTogether];
          [[unroll]] for (uint e = 0; e < kTogether; ++e) {
            const uint64_t row = kChosen != 0 ? listed[turn][t + e] : values + (t + e) * v_row;
            elements[e] = element_of(kValueType, row, d);
          }
          [[unroll]] for (uint e = 0; e < kTogether; ++e) {
            [[unroll]] for (uint h = 0; h < kHeads; ++h) {
              part[h] = fma(weights[turn][h * kLanes + t + e], elements[e], part[h]);
            }
          }
        }
        [[dont_unroll]] for (; t < end; ++t) {
          const uint64_t row = kChosen != 0 ? listed[turn][t] : values + t * v_row;
          const float element = element_of(kValueType, row, d);
          [[unroll]] for (uint h = 0; h < kHeads; ++h) {
            part[h] = fma(weights[turn][h * kLanes + t], element, part[h]);
          }
        }
      }
      [[unroll]] for (uint h = 0; h < kHeads; ++h) chunk_mix[h * kOwn + i] = part[h];
    }
    turn ^= 1;
    if (p + 1 < next_chunk && p + 1 < pages) continue;

    float sums[kHeads];
    tree_sums(chunk_sum, sums);
    [[unroll]] for (uint h = 0; h < kHeads; ++h) {
      const float all = sums[h];
      if (kSplit != 0) {
        const uint to = ((r * gl_NumWorkGroups.x * kHeads + first_head + h) * kChunks + chunk) *
                        (kValueDim + 2);
        if (lane == 0) {
          chunks.v[to] = all;
          chunks.v[to + 1] = chunk_most[h];
        }
        [[unroll]] for (uint i = 0; i < kOwn; ++i) {
          const uint d = lane + i * kLanes;
          if (d < kValueDim) chunks.v[to + 2 + d] = chunk_mix[h * kOwn + i];
        }
        continue;
      }
      float keep, add;
      merge(most[h], sum[h], chunk_most[h], all, keep, add);
      [[unroll]] for (uint i = 0; i < kOwn; ++i) {
        mix[h * kOwn + i] = merged_mix(mix[h * kOwn + i], keep, chunk_mix[h * kOwn + i], add);
      }
    }
    if (kSplit != 0) return;
  }
  [[unroll]] for (uint h = 0; h < kHeads; ++h) {
    [[unroll]] for (uint i = 0; i < kOwn; ++i) {
      const uint d = lane + i * kLanes;
      if (d < kValueDim) y.v[at(y_strides, first_head + h, r) + d] = mix[h * kOwn + i] / sum[h];
    }
  }
}
