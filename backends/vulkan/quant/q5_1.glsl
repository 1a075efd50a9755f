// Q5_1: engine/quant/q5_1.h.
#define BLOCK 32
#define PLANE0 16
#undef PLANE1
#define PLANE1 4
#undef PLANE2
#define PLANE2 4
#define LEAST
#define SINGLE

void levels(Row row, uint i, out uint q[8], out vec2 scale, out vec2 least) {
  const uint dm = word_at(row, 2, i);
  scale = vec2(half_of(dm & 0xffffu));
  least = vec2(-half_of(dm >> 16));
  put_four_bits(words_at(row, 0, i), q);
  add_one_bit(word_at(row, 1, i), 4, q);
}
#include "backends/vulkan/glsl/from_levels.glsl"
