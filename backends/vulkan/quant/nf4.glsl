// NF4: engine/quant/nf4.h.
#include "backends/vulkan/glsl/levels.glsl"
#define CODEBOOK nf4_value
#define BLOCK 64
#define PLANE0 32
#undef PLANE1
#define PLANE1 4

void codes(Row row, uint i, out uvec4 q, out vec2 scale) {
  scale = vec2(uintBitsToFloat(word_at(row, 1, i / 2)));
  q = words_at(row, 0, i);
}
#include "backends/vulkan/glsl/from_codes.glsl"
