#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/math.glsl"
#include "backends/vulkan/glsl/reduce.glsl"

// One workgroup a row. An expert's place is the number of those that come before it.
layout(constant_id = 0) const uint experts = 1;
layout(constant_id = 1) const uint groups = 1;
layout(constant_id = 2) const uint gating = 0;  // op::MoeRoute::Gating
layout(constant_id = 3) const uint biased = 0;
layout(constant_id = 4) const uint used = 1;

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 logits, bias;
  I32 ids;
  F32 weights;
  uint rows;
  uint logits_stride, ids_stride, weights_stride;
  uint normalise, groups_used, group_best;
  float factor;
};

#define kNone uintBitsToFloat(0xff800000u)

shared float probabilities[experts];
shared float scores[experts];
shared float worth[groups];
shared float chosen[used];

// Whether a with index i comes before b with index j.
bool before(float a, uint i, float b, uint j) { return a > b || (a == b && i < j); }

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step.rows[rows]) return;
  const uint lane = gl_LocalInvocationID.x;
  const uint from = row * logits_stride;

  float most = kNone;
  for (uint e = lane; e < experts; e += kLanes) most = max(most, logits.v[from + e]);
  most = max_of(most, 0);
  float sum = 0;
  for (uint e = lane; e < experts; e += kLanes) {
    float p = logits.v[from + e];
    if (gating == 0) p = exp_of(p - most);
    if (gating == 1) p = sigmoid_of(p);
    probabilities[e] = p;
    sum += p;
  }
  sum = sum_of(sum, 1);
  for (uint e = lane; e < experts; e += kLanes) {
    if (gating == 0) probabilities[e] /= sum;
    scores[e] = probabilities[e] + (biased != 0 ? bias.v[e] : 0.0);
  }
  barrier();

  if (groups > 1) {
    const uint size = experts / groups;
    for (uint g = lane; g < groups; g += kLanes) {
      float best = kNone;
      float second = kNone;
      for (uint e = g * size; e < (g + 1) * size; ++e) {
        const float s = scores[e];
        second = max(second, min(best, s));
        best = max(best, s);
      }
      worth[g] = best + (size > 1 && group_best > 1 ? second : 0.0);
    }
    barrier();
    for (uint g = lane; g < groups; g += kLanes) {
      uint place = 0;
      for (uint other = 0; other < groups; ++other) {
        if (other != g && before(worth[other], other, worth[g], g)) ++place;
      }
      if (place < groups_used) continue;
      for (uint e = g * size; e < (g + 1) * size; ++e) scores[e] = kNone;
    }
    barrier();
  }

  for (uint e = lane; e < experts; e += kLanes) {
    uint place = 0;
    for (uint other = 0; other < experts; ++other) {
      if (other != e && before(scores[other], other, scores[e], e)) ++place;
    }
    if (place >= used) continue;
    ids.v[row * ids_stride + place] = int(e);
    chosen[place] = probabilities[e];
  }
  barrier();

  if (lane > 0) return;
  if (gating == 2) {
    float best = chosen[0];
    for (uint i = 1; i < used; ++i) best = max(best, chosen[i]);
    float total = 0;
    for (uint i = 0; i < used; ++i) total += chosen[i] = exp_of(chosen[i] - best);
    for (uint i = 0; i < used; ++i) chosen[i] /= total;
  }
  float total = 0;
  for (uint i = 0; i < used; ++i) total += chosen[i];
  const float divisor = normalise != 0 ? max(total, 1e-20) : 1.0;
  for (uint i = 0; i < used; ++i) {
    weights.v[row * weights_stride + i] = chosen[i] / divisor * factor;
  }
}
