// Q6_K as integers.
#include "backends/vulkan/quant/q6_k.glsl"
#undef OFFSET
#define OFFSET 32

void levels(Row row, uint i, out int q[8], out vec2 scale, out vec2 least) {
  const uint b = i / 8;
  const uint h = (i % 8) / 4;
  const uint g = i % 2;
  const uint k = (i % 4) / 2;  // of the first run; the second is two on
  const uvec4 low = words_at(row, 0, i);
  const uvec4 high = words_at(row, 1, 4 * b + 2 * h + g);
  const uint first = byte_at(row, 2, 16 * b + 8 * h + 2 * k + g);
  const uint second = byte_at(row, 2, 16 * b + 8 * h + 2 * k + 4 + g);
  scale = half_at(row, 3, b) * vec2(int(first << 24) >> 24, int(second << 24) >> 24);
  least = vec2(0);
  [[unroll]] for (uint t = 0; t < 4; ++t) {
    q[t] = bits_of(low[t], 0, 15) | bits_of(high[t], 2 * k, 3) << 4;
    q[t + 4] = bits_of(low[t], 4, 15) | bits_of(high[t], 2 * k + 4, 3) << 4;
  }
}
