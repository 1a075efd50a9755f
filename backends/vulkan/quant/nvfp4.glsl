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

void codes(Row row, uint i, out uvec4 q, out vec2 scale) {
  const uint scales = word_at(row, 1, i / 2) >> (i % 2 * 16);
  scale = vec2(half_scale(scales & 255), half_scale((scales >> 8) & 255));
  const uvec4 words = words_at(row, 0, i);
  // Each half lies by itself: its low bits, then its high ones.
  const uvec4 low = words & 0x0f0f0f0fu;
  const uvec4 high = words & 0xf0f0f0f0u;
  q = uvec4(low.xy | (low.zw << 4), (high.xy >> 4) | high.zw);
}
#include "backends/vulkan/glsl/from_codes.glsl"
