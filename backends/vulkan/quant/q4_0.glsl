// Q4_0: engine/quant/q4_0.h.
#define BLOCK 32
#define PLANE0 16
#undef PLANE1
#define PLANE1 2
#define OFFSET 8
#define SINGLE

void levels(Row row, uint i, out uint q[8], out vec2 scale, out vec2 least) {
  scale = vec2(half_at(row, 1, i));
  least = vec2(0);
  put_four_bits(words_at(row, 0, i), q);
}
#include "backends/vulkan/glsl/from_levels.glsl"
