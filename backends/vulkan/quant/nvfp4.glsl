// NVFP4: engine/quant/nvfp4.h.
#include "backends/vulkan/glsl/levels.glsl"
#define CODEBOOK fp4_level
#define BLOCK 64
#define PLANE0 32
#undef PLANE1
#define PLANE1 4

// Half of the scale, as the levels are doubled. The pattern of NaN stands for zero.
float half_scale(uint bits) {
  if ((bits & 127) == 127) return 0;
  const uint exponent = (bits >> 3) & 15;
  const float mantissa = float(bits & 7);
  if (exponent == 0) return mantissa * (1.0 / 1024.0);
  return (1.0 + mantissa / 8.0) * uintBitsToFloat((exponent + 119) << 23);
}

void decode(Row row, uint i, out float v[32]) {
  const uvec4 q = words_at(row, 0, i);
  const uint scales = word_at(row, 1, i / 2) >> (i % 2 * 16);
  [[unroll]] for (uint r = 0; r < 2; ++r) {
    const float d = half_scale((scales >> (8 * r)) & 255);
    [[unroll]] for (uint j = 0; j < 8; ++j) {
      const uint b = byte_of(q, 8 * r + j);
      v[16 * r + j] = codebook(b & 15) * d;
      v[16 * r + j + 8] = codebook(b >> 4) * d;
    }
  }
}
