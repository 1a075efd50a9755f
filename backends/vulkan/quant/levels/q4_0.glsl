// Q4_0 as integers.
#include "backends/vulkan/quant/q4_0.glsl"
#undef OFFSET
#define OFFSET 8
#define SINGLE

void levels(Row row, uint i, out int q[8], out vec2 scale, out vec2 least) {
  const uvec4 words = words_at(row, 0, i);
  scale = vec2(half_at(row, 1, i));
  least = vec2(0);
  [[unroll]] for (uint t = 0; t < 4; ++t) {
    q[t] = bits_of(words[t], 0, 15);
    q[t + 4] = bits_of(words[t], 4, 15);
  }
}
