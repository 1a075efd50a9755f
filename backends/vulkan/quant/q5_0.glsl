// Q5_0: engine/quant/q5_0.h.
#define BLOCK 32
#define PLANE0 16
#undef PLANE1
#define PLANE1 4
#undef PLANE2
#define PLANE2 2
#define OFFSET 16
#define SINGLE

void levels(Row row, uint i, out uint q[8], out vec2 scale, out vec2 least) {
  scale = vec2(half_at(row, 2, i));
  least = vec2(0);
  put_four_bits(words_at(row, 0, i), q);
  add_one_bit(word_at(row, 1, i), 4, q);
}
#include "backends/vulkan/glsl/from_levels.glsl"
