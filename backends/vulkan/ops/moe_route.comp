#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/math.glsl"
#include "backends/vulkan/glsl/ranked.glsl"
#include "backends/vulkan/glsl/reduce.glsl"

// One workgroup a row. A subgroup looks for the best experts one after the other.
#include "backends/vulkan/glsl/constants.glsl"
#include "backends/vulkan/ops/moe_route.def"

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 logits, bias;
  I32 ids;
  F32 weights;
  I32 table, tokens;
  uint rows;
  uint logits_stride, ids_stride, weights_stride;
  uint normalise, groups_used, group_best;
  float factor, margin;
  uint vocabulary;
};

#define kNone uintBitsToFloat(0xff800000u)

shared float probabilities[kExperts];
shared float scores[kExperts];
shared float worth[kGroups];
shared uint picked[kUsed];  // experts, the best first
shared float chosen[kUsed];  // their weights

// Whether a with index i comes before b with index j.
bool before(float a, uint i, float b, uint j) { return a > b || (a == b && i < j); }

// SparseMixer's weight of a chosen expert: op::MoeRoute.
float sparse_weight(uint chosen_one) {
  const float best = probabilities[chosen_one];
  float sum = 0;
  for (uint e = 0; e < kExperts; ++e) {
    if (e != chosen_one && before(scores[e], e, scores[chosen_one], chosen_one)) continue;
    const float x = probabilities[e];
    if (best - x <= margin * max(abs(x), best)) sum += exp_of(x - best);
  }
  return 1.0 / sum;
}

// The experts that the table has for a row's token, by one invocation: op::MoeRoute.
void take_from_table(uint row) {
  const uint token = uint(clamp(tokens.v[row], 0, int(vocabulary) - 1));
  for (uint i = 0; i < kUsed; ++i) {
    uint e = uint(clamp(table.v[token * kUsed + i], 0, int(kExperts) - 1));
    for (uint j = 0; j < i; ++j) {
      if (picked[j] != e) continue;
      e = e + 1 < kExperts ? e + 1 : 0;
      j = 0xffffffffu;  // once more from the first
    }
    picked[i] = e;
  }
}

// The experts with the highest scores, by one subgroup.
void pick_best() {
  uint64_t last = ~uint64_t(0);
  for (uint i = 0; i < kUsed; ++i) {
    uint64_t best = 0;
    for (uint e = gl_SubgroupInvocationID; e < kExperts; e += gl_SubgroupSize) {
      const uint64_t number = ranked(scores[e], e);
      if (number < last && number > best) best = number;
    }
    const uvec2 own = unpackUint2x32(best);
    const uint upper = subgroupMax(own.y);
    last = packUint2x32(uvec2(subgroupMax(own.y == upper ? own.x : 0), upper));
    if (subgroupElect()) picked[i] = place_of_ranked(last);
  }
}

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step.rows[rows]) return;
  const uint lane = gl_LocalInvocationID.x;
  const uint from = row * logits_stride;

  float most = kNone;
  for (uint e = lane; e < kExperts; e += kLanes) most = max(most, logits.v[from + e]);
  most = max_of(most, 0);
  float sum = 0;
  for (uint e = lane; e < kExperts; e += kLanes) {
    float p = logits.v[from + e];
    if (kGating == 0 || kGating == 4) p = exp_of(p - most);
    if (kGating == 1) p = sigmoid_of(p);
    if (kGating == 5) p = sqrt(softplus_of(p));
    probabilities[e] = p;
    sum += p;
  }
  sum = sum_of(sum, 1);
  for (uint e = lane; e < kExperts; e += kLanes) {
    if (kGating == 0 || kGating == 4) probabilities[e] /= sum;
    scores[e] = probabilities[e] + (kBiased != 0 ? bias.v[e] : 0.0);
  }
  barrier();

  if (kGroups > 1) {
    const uint size = kExperts / kGroups;
    for (uint g = lane; g < kGroups; g += kLanes) {
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
    for (uint g = lane; g < kGroups; g += kLanes) {
      uint place = 0;
      for (uint other = 0; other < kGroups; ++other) {
        if (other != g && before(worth[other], other, worth[g], g)) ++place;
      }
      if (place < groups_used) continue;
      for (uint e = g * size; e < (g + 1) * size; ++e) scores[e] = kNone;
    }
    barrier();
  }

  if (kTable != 0) {
    if (lane == 0) take_from_table(row);
  } else if (kGating == 4) {
    for (uint i = lane; i < kUsed; i += kLanes) picked[i] = i;
  } else if (gl_SubgroupID == 0) {
    pick_best();
  }
  barrier();
  for (uint i = lane; i < kUsed; i += kLanes) {
    const uint e = picked[i];
    ids.v[row * ids_stride + i] = int(e);
    chosen[i] = kGating == 3 ? sparse_weight(e) : probabilities[e];
  }
  barrier();

  if (lane > 0) return;
  if (kGating == 2) {
    float best = chosen[0];
    for (uint i = 1; i < kUsed; ++i) best = max(best, chosen[i]);
    float total = 0;
    for (uint i = 0; i < kUsed; ++i) total += chosen[i] = exp_of(chosen[i] - best);
    for (uint i = 0; i < kUsed; ++i) chosen[i] /= total;
  }
  float total = 0;
  for (uint i = 0; i < kUsed; ++i) total += chosen[i];
  const float divisor = normalise != 0 ? max(total, 1e-20) : 1.0;
  for (uint i = 0; i < kUsed; ++i) {
    weights.v[row * weights_stride + i] = chosen[i] / divisor * factor;
  }
}
