// FP4: engine/quant/fp4.h.
#include "backends/vulkan/glsl/levels.glsl"
#define CODEBOOK fp4_value
#define BLOCK 64
#define PLANE0 32
#undef PLANE1
#define PLANE1 4

void decode(Row row, uint i, out float v[32]) {
  const float d = uintBitsToFloat(word_at(row, 1, i / 2));
  const uvec4 q = words_at(row, 0, i);
  [[unroll]] for (uint j = 0; j < 16; ++j) {
    const uint b = byte_of(q, j);
    v[j] = codebook(b & 15) * d;
    v[j + 16] = codebook(b >> 4) * d;
  }
}
