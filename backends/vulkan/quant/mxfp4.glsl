// MXFP4: engine/quant/mxfp4.h.
#include "backends/vulkan/glsl/levels.glsl"
#define CODEBOOK fp4_level
#define BLOCK 32
#define PLANE0 16
#undef PLANE1
#define PLANE1 1

void codes(Row row, uint i, out uvec4 q, out vec2 scale) {
  const uint e = byte_at(row, 1, i);
  scale = vec2(uintBitsToFloat(e < 2 ? 0x00200000u << e : (e - 1) << 23));
  q = words_at(row, 0, i);
}
#include "backends/vulkan/glsl/from_codes.glsl"
