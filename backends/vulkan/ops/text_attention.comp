#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/math.glsl"
#include "backends/vulkan/glsl/constants.glsl"
#define WORKGROUP_SIZE(id, field, value)
#include "backends/vulkan/ops/text_attention.def"
#include "backends/vulkan/ops/text_attention.glsl"

// Attention among the rows of a text. A workgroup computes 16 neighbouring rows of a head, text by
// text. Keys are visited 64 at a time from the begin of the text, whatever rows the workgroup has,
// and a row skips what it does not see: so the rows beside it change no bit.
const uint kQueries = 16;
const uint kPage = 64;  // keys visited together
const uint kParts = kPage / kQueries;  // invocations that share the softmax of a query
const uint kPart = kPage / kParts;     // keys of such an invocation
layout(local_size_x = kPage) in;

const uint kOwn = (kValueDim + kPage - 1) / kPage;  // elements of values of an invocation

#define kNone uintBitsToFloat(0xff800000u)

shared float queries[kQueries * kKeyDim];
shared float weights[kQueries * kPage];  // scores at first
shared float largest[kPage];
shared float sums[kPage];
shared float shrinks[kQueries];

void main() {
  const uint lane = gl_LocalInvocationIndex;
  const uint head = gl_WorkGroupID.y;
  const uint first = gl_WorkGroupID.x * kQueries;
  if (first >= step.rows[kStepRows]) return;
  const uint last = min(first + kQueries, step.rows[kStepRows]);
  for (uint i = lane; i < kQueries * kKeyDim; i += kPage) {
    const uint r = first + i / kKeyDim;
    queries[i] = r < last ? q.v[at(q_strides, head, r) + i % kKeyDim] : 0.0;
  }
  // The query whose softmax this invocation shares.
  const uint mine = lane / kParts;
  const uint part = lane % kParts;
  const uint row = min(first + mine, last - 1);
  const uint row_first = first_seen(row);
  const uint row_end = end_seen(row);
  const float slope = kAlibi != 0 ? slopes.v[head] : 0.0;
  float most = kSinks != 0 ? sinks.v[head] : kNone;
  float sum = kSinks != 0 ? 1.0 : 0.0;
  float mix[kOwn * kQueries];
  [[unroll]] for (uint i = 0; i < kOwn * kQueries; ++i) mix[i] = 0;
  barrier();

  for (uint from = first; from < last;) {  // the rows of one text
    const uint begin = uint(begins.v[from]);
    const uint to = min(uint(ends.v[from]), last);
    const uint keys_end = end_seen(to - 1);
    for (uint page = begin + (first_seen(from) - begin) / kPage * kPage; page < keys_end;
         page += kPage) {
      float score[kQueries];
      [[unroll]] for (uint i = 0; i < kQueries; ++i) score[i] = 0;
      if (page + lane < keys_end) {
        const uint key = at(k_strides, head / kGroup, page + lane);
        [[dont_unroll]] for (uint d = 0; d < kKeyDim; ++d) {
          const float element = k.v[key + d];
          [[unroll]] for (uint i = 0; i < kQueries; ++i) {
            score[i] = fma(queries[i * kKeyDim + d], element, score[i]);
          }
        }
      }
      [[unroll]] for (uint i = 0; i < kQueries; ++i) weights[i * kPage + lane] = score[i];
      barrier();
      const uint stretch = part * kPart;
      float own[kPart];
      float best = kNone;
      [[unroll]] for (uint i = 0; i < kPart; ++i) {
        const uint key = page + stretch + i;
        const bool seen = row >= from && row < to && key >= row_first && key < row_end;
        precise float x = weights[mine * kPage + stretch + i] * scale;
        if (kAlibi != 0) x = fma(-slope, abs(float(int(row) - int(key))), x);
        if (softcap > 0) x = softcap * tanh_of(x / softcap);
        own[i] = seen ? x : kNone;
        best = max(best, own[i]);
      }
      largest[lane] = best;
      barrier();
      float now = most;
      [[unroll]] for (uint i = 0; i < kParts; ++i) now = max(now, largest[mine * kParts + i]);
      const float shrink = now > most ? exp_of(most - now) : 1.0;
      precise float part_sum = 0;
      [[unroll]] for (uint i = 0; i < kPart; ++i) {
        const float weight = own[i] > kNone ? exp_of(own[i] - now) : 0.0;
        weights[mine * kPage + stretch + i] = weight;
        part_sum += weight;
      }
      sums[lane] = part_sum;
      if (part == 0) shrinks[mine] = shrink;
      barrier();
      precise float page_sum = 0;
      [[unroll]] for (uint i = 0; i < kParts; ++i) page_sum += sums[mine * kParts + i];
      sum = fma(sum, shrink, page_sum);
      most = now;
      const uint count = min(kPage, keys_end - page);
      [[unroll]] for (uint o = 0; o < kOwn; ++o) {
        const uint d = lane + o * kPage;
        if (d >= kValueDim) continue;
        [[unroll]] for (uint i = 0; i < kQueries; ++i) mix[o * kQueries + i] *= shrinks[i];
        [[dont_unroll]] for (uint t = 0; t < count; ++t) {
          const float element = v.v[at(v_strides, head / kGroup, page + t) + d];
          [[unroll]] for (uint i = 0; i < kQueries; ++i) {
            mix[o * kQueries + i] = fma(weights[i * kPage + t], element, mix[o * kQueries + i]);
          }
        }
      }
      barrier();
    }
    from = to;
  }
  if (part == 0) sums[mine] = sum;
  barrier();
  [[unroll]] for (uint o = 0; o < kOwn; ++o) {
    const uint d = lane + o * kPage;
    [[unroll]] for (uint i = 0; i < kQueries; ++i) {
      if (d < kValueDim && first + i < last) {
        y.v[at(y_strides, head, first + i) + d] = mix[o * kQueries + i] / sums[i];
      }
    }
  }
}
