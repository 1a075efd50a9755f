// Q2_K: engine/quant/q2_k.h.
#define BLOCK 256
#define PLANE0 64
#undef PLANE1
#define PLANE1 16
#undef PLANE2
#define PLANE2 4
#define LEAST

void levels(Row row, uint i, out uint q[8], out vec2 scale, out vec2 least) {
  const uint dm = word_at(row, 2, i / 8);
  const uint s = half_bits(row, 1, i);
  scale = half_of(dm & 0xffffu) * vec2(s & 15, (s >> 8) & 15);
  least = half_of(dm >> 16) * vec2((s >> 4) & 15, s >> 12);
  put_two_bits(pair_of_words(row, 0, i), q);
}
#include "backends/vulkan/glsl/from_levels.glsl"
