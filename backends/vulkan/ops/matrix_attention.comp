// Attention of the rows of prompts to the pages of the cache, by cooperative matrices. Compiled for each
// shape of these: backend.cmake.
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/math.glsl"
#include "backends/vulkan/glsl/cache.glsl"
#include "backends/vulkan/glsl/merge.glsl"

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
  uint key_dim;
  uint tiles, unused;
  F32 slopes;  // with biases
};

const uint kSubgroups = kParts;
const uint kLanes = kSubgroupLanes;
const uint kTokens = kPieceTokens;
#include "backends/vulkan/glsl/attend_matrix.glsl"

// Generated rows come first.
Rows rows_here() { return Rows(step.rows[2], step.rows[0]); }

Seen seen_by(uint row) {
  return Seen(first_seen(uint(slots.v[row]), window), uint(last_seen.v[row]));
}

Run run_of(uint begin, uint end) {
  Run run = Run(0, 0xffffffffu, 0, uint(sequences.v[begin]));
  do {
    const Seen seen = seen_by(begin + run.count);
    run.first = min(run.first, seen.first);
    run.last = max(run.last, seen.last);
    ++run.count;
  } while (begin + run.count < end && uint(sequences.v[begin + run.count]) == run.source);
  return run;
}

float query_of(uint head, uint row, uint i) { return q.v[at(q_strides, head, row) + i]; }
void store(uint head, uint row, uint i, float x) { y.v[at(y_strides, head, row) + i] = x; }

uint64_t piece_of(Run run, uint token) { return page_of(step.kinds[kind], run.source, token); }

uvec4 key_units(uint64_t piece, uint token, uint i) {
  const uint64_t keys = piece + k_offset + gl_WorkGroupID.x * kPageTokens * k_row;
  const uint t = token % kPageTokens;
  return kAcross != 0 ? eight_stored(kKeyType, keys + i * kPageTokens * 2, t)
                      : eight_stored(kKeyType, keys + t * k_row, i);
}
uvec4 value_units(uint64_t piece, uint token, uint i) {
  const uint64_t values = piece + v_offset + gl_WorkGroupID.x * kPageTokens * v_row;
  return eight_stored(kValueType, values + token % kPageTokens * v_row, i);
}

// What glsl/cache.glsl calls eight_stored, as float16.
uvec4 eight_halves(uint type, uvec4 stored) {
  if (type == kF16) return stored;
  uvec4 halves;
  [[unroll]] for (uint w = 0; w < 4; ++w) {
    if (type == kBf16) {
      halves[w] = packed(limited(uintBitsToFloat(stored[w] << 16)),
                         limited(uintBitsToFloat(stored[w] & 0xffff0000u)));
      continue;
    }
    const uint both = stored[w / 2] >> (w % 2 * 16);
    const vec2 levels = type == kQ8_0 ? vec2((ivec2(both) << ivec2(24, 16)) >> 24)
                                      : vec2(ivec2((uvec2(both) >> uvec2(0, 8)) & 15) - 8);
    const float scale = half_of(stored.z);
    halves[w] = packed(limited(levels.x * scale), limited(levels.y * scale));
  }
  return halves;
}

uvec4 key_halves(uvec4 units) { return eight_halves(kKeyType, units); }
uvec4 value_halves(uvec4 units) { return eight_halves(kValueType, units); }

float with_bias(float x, uint row, uint head, Run run, uint token) {
  if (kAlibi == 0) return x;
  const float slope = slopes.v[head] * (softcap > 0 ? 1.0 : kLog2E);
  return fma(-slope, abs(float(int(slots.v[row]) - int(token))), x);
}

void main() { attend(); }
