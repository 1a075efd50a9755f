// Q3_K: engine/quant/q3_k.h.
#define BLOCK 256
#define PLANE0 64
#undef PLANE1
#define PLANE1 32
#undef PLANE2
#define PLANE2 12
#undef PLANE3
#define PLANE3 2
#define OFFSET 4

void levels(Row row, uint i, out uint q[8], out vec2 scale, out vec2 least) {
  const uint p = i % 8;
  const uint low = byte_at(row, 2, 12 * (i / 8) + p);
  const uint upper = byte_at(row, 2, 12 * (i / 8) + 8 + p / 2) >> (p % 2 * 4);
  const uvec2 s = uvec2((low & 15) | ((upper & 3) << 4), (low >> 4) | ((upper & 12) << 2));
  scale = half_at(row, 3, i / 8) * vec2(ivec2(s) - 32);
  least = vec2(0);
  put_two_bits(pair_of_words(row, 0, i), q);
  add_one_bit(word_at(row, 1, i), 2, q);
}
#include "backends/vulkan/glsl/from_levels.glsl"
