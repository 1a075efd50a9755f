// Q8_0 as integers.
#include "backends/vulkan/quant/q8_0.glsl"
#define SINGLE

void levels(Row row, uint i, out int q[8], out vec2 scale, out vec2 least) {
  const uvec4 low = words_at(row, 0, 2 * i);
  const uvec4 high = words_at(row, 0, 2 * i + 1);
  scale = vec2(half_at(row, 1, i));
  least = vec2(0);
  [[unroll]] for (uint t = 0; t < 4; ++t) {
    q[t] = int(low[t]);
    q[t + 4] = int(high[t]);
  }
}
