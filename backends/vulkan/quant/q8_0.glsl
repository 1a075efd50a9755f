// Q8_0: engine/quant/q8_0.h.
#define BLOCK 32
#define PLANE0 32
#undef PLANE1
#define PLANE1 2
#define SIGNED
#define SINGLE

void levels(Row row, uint i, out uint q[8], out vec2 scale, out vec2 least) {
  const uvec4 low = words_at(row, 0, 2 * i);
  const uvec4 high = words_at(row, 0, 2 * i + 1);
  scale = vec2(half_at(row, 1, i));
  least = vec2(0);
  [[unroll]] for (uint w = 0; w < 4; ++w) {
    q[w] = low[w];
    q[w + 4] = high[w];
  }
}
#include "backends/vulkan/glsl/from_levels.glsl"
