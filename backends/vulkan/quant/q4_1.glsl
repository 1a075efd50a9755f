// Q4_1: engine/quant/q4_1.h.
#define BLOCK 32
#define PLANE0 16
#undef PLANE1
#define PLANE1 4
#define LEAST
#define SINGLE

void levels(Row row, uint i, out uint q[8], out vec2 scale, out vec2 least) {
  const uint dm = word_at(row, 1, i);
  scale = vec2(half_of(dm & 0xffffu));
  least = vec2(-half_of(dm >> 16));
  put_four_bits(words_at(row, 0, i), q);
}
#include "backends/vulkan/glsl/from_levels.glsl"
