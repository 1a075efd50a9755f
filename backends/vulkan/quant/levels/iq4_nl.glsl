// IQ4_NL as integers.
#include "backends/vulkan/quant/iq4_nl.glsl"
#define SINGLE

// The levels of four codes, in the low or in the high halves of the bytes.
int levels_of(uint word, uint shift) {
  int levels = 0;
  [[unroll]] for (uint t = 0; t < 4; ++t) {
    levels |= (int(iq4_level((word >> (8 * t + shift)) & 15)) & 255) << (8 * t);
  }
  return levels;
}

void levels(Row row, uint i, out int q[8], out vec2 scale, out vec2 least) {
  const uvec4 words = words_at(row, 0, i);
  scale = vec2(half_at(row, 1, i));
  least = vec2(0);
  [[unroll]] for (uint t = 0; t < 4; ++t) {
    q[t] = levels_of(words[t], 0);
    q[t + 4] = levels_of(words[t], 4);
  }
}
