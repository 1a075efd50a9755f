// NF4: engine/quant/nf4.h.
#include "backends/vulkan/glsl/levels.glsl"
#define BLOCK 64
#define PLANE0 32
#undef PLANE1
#define PLANE1 4

uvec2 runs(uint i) { return plain_runs(i); }

void decode(Row row, uint i, out float v[32]) {
  const float d = uintBitsToFloat(word_at(row, 1, i / 2));
  const uvec4 q = words_at(row, 0, i);
  [[unroll]] for (uint j = 0; j < 16; ++j) {
    const uint b = byte_of(q, j);
    v[j] = nf4_value(b & 15) * d;
    v[j + 16] = nf4_value(b >> 4) * d;
  }
}
