#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/cache.glsl"
#include "backends/vulkan/glsl/math.glsl"
#include "backends/vulkan/glsl/constants.glsl"
#include "backends/vulkan/ops/causal_conv.def"

layout(local_size_x = 64) in;

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 x, w, bias, y;
  I32 slots, sequences;
  uint channels;
  uint x_stride, y_stride;  // of rows
  uint kind, offset;        // of the state, in bytes
};

const uint kKept = (kTaps - 1) * kDilation;
const uint kAhead = 8;  // rows whose inputs are loaded together

uint channel;
float before[kKept];  // the inputs of the slots before, the earliest first

F32 state_of(uint sequence) {
  return F32(page_of(step.kinds[kind], sequence, 0) + offset + channel * 4);
}
void load_state(uint sequence, uint slot) {
  F32 state = state_of(sequence);
  [[unroll]] for (uint j = 0; j < kKept; ++j) {
    before[j] = slot + j >= kKept ? state.v[(slot + j - kKept) % kKept * channels] : 0.0;
  }
}
void save_state(uint sequence, uint slot) {
  F32 state = state_of(sequence);
  [[unroll]] for (uint j = 0; j < kKept; ++j) {
    if (slot + j >= kKept) state.v[(slot + j - kKept) % kKept * channels] = before[j];
  }
}

// An invocation takes a channel through the rows of the step, for the sequences whose number modulo
// the count of workgroups along z is z.
void main() {
  channel = gl_GlobalInvocationID.x;
  if (channel >= channels) return;
  float weights[kTaps];
  [[unroll]] for (uint j = 0; j < kTaps; ++j) weights[j] = w.v[channel * kTaps + j];
  const float base = kBias != 0 ? bias.v[channel] : 0.0;
  int held = -1;      // the sequence whose inputs are in `before`
  uint slot = 0;      // the next one of it
  const uint rows = step.rows[0];
  for (uint first = 0; first < rows; first += kAhead) {
    bool mine[kAhead];
    float values[kAhead];
    [[unroll]] for (uint i = 0; i < kAhead; ++i) {
      const uint r = first + i;
      mine[i] = r < rows && uint(sequences.v[r]) % gl_NumWorkGroups.z == gl_WorkGroupID.z;
    }
    [[unroll]] for (uint i = 0; i < kAhead; ++i) {
      if (mine[i]) values[i] = x.v[(first + i) * x_stride + channel];
    }
    [[unroll]] for (uint i = 0; i < kAhead; ++i) {
      if (!mine[i]) continue;
      const uint r = first + i;
      const int sequence = sequences.v[r];
      if (sequence != held) {
        if (held >= 0) save_state(uint(held), slot);
        held = sequence;
        load_state(uint(held), uint(slots.v[r]));
      }
      slot = uint(slots.v[r]) + 1;
      precise float sum = base;
      [[unroll]] for (uint j = 0; j + 1 < kTaps; ++j) {
        sum = fma(weights[j], before[j * kDilation], sum);
      }
      sum = fma(weights[kTaps - 1], values[i], sum);
      y.v[r * y_stride + channel] = kSilu != 0 ? sum * sigmoid_of(sum) : sum;
      [[unroll]] for (uint j = 0; j + 1 < kKept; ++j) before[j] = before[j + 1];
      before[kKept - 1] = values[i];
    }
  }
  if (held >= 0) save_state(uint(held), slot);
}
