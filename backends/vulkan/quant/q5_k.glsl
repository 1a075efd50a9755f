// Q5_K: engine/quant/q5_k.h.
#include "backends/vulkan/glsl/k_scales.glsl"
#define BLOCK 256
#define PLANE0 128
#undef PLANE1
#define PLANE1 32
#undef PLANE2
#define PLANE2 16
#define LEAST
#define SINGLE

void levels(Row row, uint i, out uint q[8], out vec2 scale, out vec2 least) {
  const vec2 s = k_scales(words_at(row, 2, i / 8), i % 8);
  scale = s.xx;
  least = s.yy;
  put_four_bits(words_at(row, 0, i), q);
  add_one_bit(word_at(row, 1, i), 4, q);
}
#include "backends/vulkan/glsl/from_levels.glsl"
