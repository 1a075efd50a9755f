// Q4_K as integers.
#include "backends/vulkan/quant/q4_k.glsl"
#define LEAST

void levels(Row row, uint i, out int q[8], out vec2 scale, out vec2 least) {
  const uint c = (i % 8) / 2;
  const uvec4 head = words_at(row, 1, i / 8);
  const uvec4 words = words_at(row, 0, i);
  const uvec4 k = k_scales(head, c);
  scale = half_of(head.x & 0xffffu) * vec2(k.x, k.y);
  least = half_of(head.x >> 16) * vec2(k.z, k.w);
  [[unroll]] for (uint t = 0; t < 4; ++t) {
    q[t] = bits_of(words[t], 0, 15);
    q[t + 4] = bits_of(words[t], 4, 15);
  }
}
