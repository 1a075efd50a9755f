// Q6_K: engine/quant/q6_k.h.
#define BLOCK 256
#define PLANE0 128
#undef PLANE1
#define PLANE1 64
#undef PLANE2
#define PLANE2 16
#undef PLANE3
#define PLANE3 2
#define OFFSET 32

void levels(Row row, uint i, out uint q[8], out vec2 scale, out vec2 least) {
  const int s = int(half_bits(row, 2, i));
  scale = half_at(row, 3, i / 8) *
          vec2(bitfieldExtract(s, 0, 8), bitfieldExtract(s, 8, 8));
  least = vec2(0);
  put_four_bits(words_at(row, 0, i), q);
  add_two_bits(pair_of_words(row, 1, i), 4, q);
}
#include "backends/vulkan/glsl/from_levels.glsl"
