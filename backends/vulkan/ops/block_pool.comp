#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/cache.glsl"
#include "backends/vulkan/glsl/math.glsl"

layout(local_size_x = 64) in;

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 x, gate, y;
  I32 slots, sequences;
  uint width;                            // elements of a result
  uint x_stride, gate_stride, y_stride;  // of rows
  uint kind, offset;                     // of the state, in bytes
  uint block;                            // slots of a block
  uint overlaps;                         // 1: blocks overlap
};

// A mean by weights of which only the exponents are known, one after the other.
struct RunningMean {
  float best;  // the largest exponent
  float sum;   // of the weights relative to that one
  float mix;   // of the elements times them
};
const RunningMean kEmpty = RunningMean(-3.402823466e38, 0.0, 0.0);

uint element;

RunningMean taken(RunningMean run, float exponent, float value) {
  const float best = max(run.best, exponent);
  const precise float keep = exp_of(run.best - best);
  const precise float share = exp_of(exponent - best);
  const precise float weighted = share * value;
  return RunningMean(best, fma(run.sum, keep, share), fma(run.mix, keep, weighted));
}

F32 state_of(int sequence, uint part) {
  return F32(page_of(step.kinds[kind], uint(sequence), 0) + offset + (3 * part * width + element) * 4);
}
RunningMean load(int sequence, uint part) {
  F32 from = state_of(sequence, part);
  return RunningMean(from.v[0], from.v[width], from.v[2 * width]);
}
void store(int sequence, uint part, RunningMean run) {
  F32 to = state_of(sequence, part);
  to.v[0] = run.best;
  to.v[width] = run.sum;
  to.v[2 * width] = run.mix;
}

// An invocation takes an element through the rows of the step, for the sequences whose number modulo
// the count of workgroups along z is z.
void main() {
  element = gl_GlobalInvocationID.x;
  if (element >= width) return;
  int held = -1;  // the sequence of the means
  RunningMean own = kEmpty;
  RunningMean next = kEmpty;
  const uint rows = step.rows[0];
  for (uint r = 0; r < rows; ++r) {
    const int sequence = sequences.v[r];
    if (uint(sequence) % gl_NumWorkGroups.z != gl_WorkGroupID.z) continue;
    const uint slot = uint(slots.v[r]);
    if (sequence != held) {
      if (held >= 0) {
        store(held, 0, own);
        if (overlaps != 0) store(held, 1, next);
      }
      held = sequence;
      if (slot > 0) {
        own = load(held, 0);
        if (overlaps != 0) next = load(held, 1);
      }
    }
    if (slot % block == 0) {
      own = kEmpty;
      if (overlaps != 0 && slot > 0) own = next;
      next = kEmpty;
    }
    const uint last = overlaps != 0 ? width + element : element;
    own = taken(own, gate.v[r * gate_stride + last], x.v[r * x_stride + last]);
    if (overlaps != 0) {
      next = taken(next, gate.v[r * gate_stride + element], x.v[r * x_stride + element]);
    }
    y.v[r * y_stride + element] = own.mix / own.sum;
  }
  if (held < 0) return;
  store(held, 0, own);
  if (overlaps != 0) store(held, 1, next);
}
