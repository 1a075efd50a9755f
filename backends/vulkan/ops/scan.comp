#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/cache.glsl"
#include "backends/vulkan/glsl/math.glsl"

// The scans of recurrent layers: op::DeltaScan and op::SsmScan. A workgroup takes 64 columns of a
// head's matrix S through the rows of the step, one after the other, and keeps them in registers. An
// invocation has a quarter of the rows of one column, every fourth group of four. Workgroup z of n
// does this for the sequences whose number modulo n is z.
#include "backends/vulkan/glsl/constants.glsl"
#include "backends/vulkan/ops/scan.def"

const uint kBlock = 64;  // engine/graph/kv_geometry.h: kStateColumns
const uint kPad = 16;    // likewise: kStatePad
const uint kParts = 4;
const uint kLanes = kBlock * kParts;
const uint kOwn = (kRows + 4 * kParts - 1) / (4 * kParts);  // groups of four rows of an invocation
const uint kPadded = kOwn * 4 * kParts;
const uint kLoads = 2;  // enough for 512 rows

layout(local_size_x = 256) in;

// What a head does with a row: backends/vulkan/scan.cpp.
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Gates {
  // Of F32, which as members would need their alignment. gain: of DeltaScan alone.
  uint64_t size, gain;
  // By head, or of its channels; pass: of SsmScan alone. By element: a of each element of S, no
  // bias, pass by column.
  uint64_t a, bias, pass;
  Strides size_strides, gain_strides;
  uint size_width, gain_width;  // heads that are beside each other along d0
  float bound;                  // as in op::DeltaScan
  float slope;                  // as in op::SsmScan: then there are no size, a, bias and pass
};
layout(push_constant, scalar) uniform Push {
  Step step;
  Gates gates;
  F32 write, read, v, y;
  I32 slots, sequences;
  Strides write_strides, read_strides, v_strides, y_strides;
  uint kind, offset;  // of the state of head 0, in bytes
  float write_scale, read_scale;
};

// What is written and read: of the row that is computed, of the next one, and of the one before,
// which others may still need.
shared float written[3][kPadded];
shared float wanted[3][kPadded];
// Of each row of S, where they differ.
shared float decays[3][kByChannel != 0 ? kPadded : 1];
// Sums of the parts, of two rows in turn.
shared float found_parts[2][kLanes];
shared float result_parts[2][kLanes];
shared float met_parts[2][kLanes];

uint lane, part, column, head;
bool given;  // there is such a column
vec4 state[kOwn];

// The first row from r on whose sequence is this workgroup's.
uint next_row(uint r) {
  while (r < step.rows[0] && uint(sequences.v[r]) % gl_NumWorkGroups.z != gl_WorkGroupID.z) ++r;
  return r;
}

// What a row gives to this invocation.
struct Token {
  float written[kLoads], wanted[kLoads], decays[kLoads];
  float v, size, gain;
};
// By element: what this invocation's part of S decays with.
vec4 rates[kByElement != 0 ? kOwn : 1];

float slope_of_head() {
  return -gates.slope * exp_of(-5.5451774 * float(head + 1) / float(gl_NumWorkGroups.y));  // 8·log 2
}
float decay_of(float size) {
  const float a = F32(gates.a).v[head];
  if (gates.bound < 0.0) return exp_of(gates.bound * sigmoid_of(abs(a) * size));
  return exp_of(a * softplus_of(size));
}
Token token_of(uint r) {
  Token t;
  const uint from = kTiled != 0 ? head % kKeys : head / (gl_NumWorkGroups.y / kKeys);
  [[unroll]] for (uint i = 0; i < kLoads; ++i) {
    const uint e = lane + i * kLanes;
    t.written[i] = e < kRows ? write.v[at(write_strides, from, r) + e] : 0.0;
    t.wanted[i] = e < kRows ? read.v[at(read_strides, from, r) + e] : 0.0;
    if (kByChannel != 0 && e < kRows) {
      t.decays[i] = decay_of(F32(gates.size).v[at(gates.size_strides, head, r) + e] +
                             F32(gates.bias).v[head * kRows + e]);
    }
  }
  t.v = given ? v.v[at(v_strides, head, r) + column] : 0.0;
  t.size = 0;
  if (kByElement != 0) {
    if (given) t.size = F32(gates.size).v[at(gates.size_strides, head, r) + column];
  } else if (kByChannel == 0 && !(gates.slope > 0.0)) {
    const uint n = gates.size_width;
    t.size = F32(gates.size).v[at(gates.size_strides, head / n, r) + head % n];
  }
  t.gain = 0;
  if (kCorrects != 0) {
    const uint m = gates.gain_width;
    t.gain = F32(gates.gain).v[at(gates.gain_strides, head / m, r) + head % m];
  }
  return t;
}

void stage(Token t, uint turn) {
  [[unroll]] for (uint i = 0; i < kLoads; ++i) {
    const uint e = lane + i * kLanes;
    if (e >= kPadded) continue;
    written[turn][e] = t.written[i];
    wanted[turn][e] = t.wanted[i];
    if (kByChannel != 0) decays[turn][e] = e < kRows ? t.decays[i] : 0.0;
  }
}

// Rows of the j-th group of this invocation begin here.
uint first_of(uint j) { return (j * kParts + part) * 4; }

// The column of the state of a sequence; its rows are `width` floats apart.
F32 column_of(uint sequence, out uint width) {
  const uint pitch = (kColumns + kPad - 1) / kPad * kPad;
  const uint first = column / kBlock * kBlock;
  width = min(kBlock, pitch - first);
  const uint from = head * kRows * pitch + first * kRows + column % kBlock;
  return F32(page_of(step.kinds[kind], sequence, 0) + offset + from * 4);
}
void load_state(uint sequence) {
  uint width;
  F32 from = column_of(sequence, width);
  [[unroll]] for (uint j = 0; j < kOwn; ++j) {
    [[unroll]] for (uint e = 0; e < 4; ++e) {
      const uint i = first_of(j) + e;
      state[j][e] = given && i < kRows ? from.v[i * width] : 0.0;
    }
  }
}
void save_state(uint sequence) {
  uint width;
  F32 to = column_of(sequence, width);
  [[unroll]] for (uint j = 0; j < kOwn; ++j) {
    [[unroll]] for (uint e = 0; e < 4; ++e) {
      const uint i = first_of(j) + e;
      if (given && i < kRows) to.v[i * width] = state[j][e];
    }
  }
}

void load_rates() {
  F32 from = F32(gates.a);
  [[unroll]] for (uint j = 0; j < kOwn; ++j) {
    [[unroll]] for (uint e = 0; e < 4; ++e) {
      const uint i = first_of(j) + e;
      rates[j][e] = given && i < kRows ? from.v[(head * kColumns + column) * kRows + i] : 0.0;
    }
  }
}

float sum_of(vec4 x) {
  const precise float sum = (x[0] + x[1]) + (x[2] + x[3]);
  return sum;
}

void main() {
  lane = gl_LocalInvocationIndex;
  part = lane / kBlock;
  column = gl_WorkGroupID.x * kBlock + lane % kBlock;
  head = gl_WorkGroupID.y;
  given = column < kColumns;
  uint r = next_row(0);
  if (r >= step.rows[0]) return;
  const bool sloped = gates.slope > 0.0;
  float bias = 0;
  float pass = 0;
  if (kByElement != 0) {
    load_rates();
    if (given) pass = F32(gates.pass).v[head * kColumns + column];
  } else if (!sloped) {
    if (kByChannel == 0) bias = F32(gates.bias).v[head];
    if (kCorrects == 0) pass = F32(gates.pass).v[head];
  }
  Token token = token_of(r);
  stage(token, 0);
  barrier();
  uint held = uint(sequences.v[r]);
  if (slots.v[r] != 0) load_state(held);
  uint turn = 0;   // of written and wanted
  uint other = 0;  // of the parts
  while (true) {
    const uint sequence = uint(sequences.v[r]);
    const uint next = next_row(r + 1);
    const bool more = next < step.rows[0];
    Token coming = token;
    if (more) coming = token_of(next);
    if (sequence != held) {
      save_state(held);
      held = sequence;
      if (slots.v[r] != 0) load_state(held);
    }
    if (slots.v[r] == 0) {
      [[unroll]] for (uint j = 0; j < kOwn; ++j) state[j] = vec4(0);
    }
    const float size = sloped ? 1.0 : softplus_of(token.size + bias);
    float decay = 1;
    if (kByElement != 0) {
      [[unroll]] for (uint j = 0; j < kOwn; ++j) {
        [[unroll]] for (uint e = 0; e < 4; ++e) state[j][e] *= exp_of(rates[j][e] * size);
      }
    } else if (kByChannel == 0) {
      decay = exp_of(sloped ? slope_of_head() : F32(gates.a).v[head] * size);
    } else {
      [[unroll]] for (uint j = 0; j < kOwn; ++j) {
        [[unroll]] for (uint e = 0; e < 4; ++e) state[j][e] *= decays[turn][first_of(j) + e];
      }
    }
    const float gain = kCorrects != 0 ? sigmoid_of(token.gain) : size;

    vec4 found = vec4(0);
    vec4 result = vec4(0);
    vec4 met = vec4(0);
    [[unroll]] for (uint j = 0; j < kOwn; ++j) {
      [[unroll]] for (uint e = 0; e < 4; ++e) {
        const float w = written[turn][first_of(j) + e];
        const float q = wanted[turn][first_of(j) + e];
        if (kCorrects != 0) found[e] = fma(w, state[j][e], found[e]);
        result[e] = fma(q, state[j][e], result[e]);
        met[e] = fma(w, q, met[e]);
      }
    }
    if (kCorrects != 0) found_parts[other][lane] = sum_of(found);
    result_parts[other][lane] = sum_of(result);
    met_parts[other][lane] = sum_of(met);
    if (more) stage(coming, (turn + 1) % 3);
    barrier();
    precise float all_found = 0;
    precise float all_result = 0;
    precise float all_met = 0;
    [[unroll]] for (uint i = 0; i < kParts; ++i) {
      const uint of = i * kBlock + lane % kBlock;
      if (kCorrects != 0) all_found += found_parts[other][of];
      all_result += result_parts[other][of];
      all_met += met_parts[other][of];
    }
    precise float change = token.v;
    if (kCorrects != 0) change = fma(-(decay * write_scale), all_found, change);
    change *= gain;
    if (part == 0 && given) {
      precise float result_of = all_result * (decay * read_scale);
      result_of = fma(all_met * (write_scale * read_scale), change, result_of);
      y.v[at(y_strides, head, r) + column] = fma(pass, token.v, result_of);
    }
    change *= write_scale;
    [[unroll]] for (uint j = 0; j < kOwn; ++j) {
      [[unroll]] for (uint e = 0; e < 4; ++e) {
        precise float kept = state[j][e] * decay;
        state[j][e] = fma(written[turn][first_of(j) + e], change, kept);
      }
    }
    if (!more) break;
    r = next;
    token = coming;
    turn = (turn + 1) % 3;
    other ^= 1;
  }
  save_state(held);
}
