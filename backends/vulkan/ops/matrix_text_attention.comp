// Attention among the rows of a text by cooperative matrices. Compiled for each shape of these:
// backend.cmake. Sizes of heads are padded with zeros to multiples of 16.
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/math.glsl"

#define WORKGROUP_SIZE(id, field, value) layout(local_size_x_id = id) in;
#include "backends/vulkan/glsl/constants.glsl"
#include "backends/vulkan/ops/text_attention.def"
#include "backends/vulkan/ops/text_attention.glsl"

const uint kAcross = 0;
const uint kSubgroups = kTileSubgroups;
const uint kLanes = kSubgroupLanes;
const uint kTokens = kPieceTokens;
const uint group = kGroup;
#include "backends/vulkan/glsl/attend_matrix.glsl"

Rows rows_here() { return Rows(0, step.rows[kStepRows]); }

// Tokens are counted from the text's begin.
Seen seen_by(uint row) {
  const uint begin = uint(begins.v[row]);
  return Seen(first_seen(row) - begin, end_seen(row) - begin - 1);
}

Run run_of(uint begin, uint end) {
  const uint source = uint(begins.v[begin]);
  const uint next = min(uint(ends.v[begin]), end);
  return Run(next - begin, first_seen(begin) - source, end_seen(next - 1) - source - 1, source);
}

float query_of(uint head, uint row, uint i) {
  return i < kTextKeyDim ? q.v[at(q_strides, head, row) + i] : 0.0;
}
void store(uint head, uint row, uint i, float x) {
  if (i < kTextValueDim) y.v[at(y_strides, head, row) + i] = x;
}

uint64_t piece_of(Run run, uint token) { return run.source; }

// Keys and values are float16 here: text_halves.comp. Tokens behind a text's last one are not seen, but
// there need not be memory: the last row stands for them.
uint row_of(uint64_t piece, uint token) { return min(uint(piece) + token, step.rows[kStepRows] - 1); }

uvec4 key_units(uint64_t piece, uint token, uint i) {
  const uint from = at(k_strides, gl_WorkGroupID.x, row_of(piece, token)) + i;
  return Eight(uint64_t(k) + uint64_t(from) * 2).v;
}
uvec4 value_units(uint64_t piece, uint token, uint i) {
  const uint from = at(v_strides, gl_WorkGroupID.x, row_of(piece, token)) + i;
  return Eight(uint64_t(v) + uint64_t(from) * 2).v;
}
uvec4 key_halves(uvec4 units) { return units; }
uvec4 value_halves(uvec4 units) { return units; }

float with_bias(float x, uint row, uint head, Run run, uint token) {
  if (kAlibi == 0) return x;
  const float slope = slopes.v[head] * (softcap > 0 ? 1.0 : kLog2E);
  return fma(-slope, abs(float(int(row) - int(run.source + token))), x);
}

void main() { attend(); }
