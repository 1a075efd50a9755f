// MXFP4: engine/quant/mxfp4.h.
#include "backends/vulkan/glsl/levels.glsl"
#define CODEBOOK fp4_level
#define BLOCK 32
#define PLANE0 16
#undef PLANE1
#define PLANE1 1

void decode(Row row, uint i, out float v[32]) {
  const uint e = byte_at(row, 1, i);
  const float d = uintBitsToFloat(e < 2 ? 0x00200000u << e : (e - 1) << 23);
  const uvec4 q = words_at(row, 0, i);
  [[unroll]] for (uint j = 0; j < 16; ++j) {
    const uint b = byte_of(q, j);
    v[j] = codebook(b & 15) * d;
    v[j + 16] = codebook(b >> 4) * d;
  }
}
