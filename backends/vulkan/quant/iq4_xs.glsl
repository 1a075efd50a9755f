// IQ4_XS: engine/quant/iq4_xs.h.
#include "backends/vulkan/glsl/levels.glsl"
#define CODEBOOK iq4_level
#define BLOCK 256
#define PLANE0 128
#undef PLANE1
#define PLANE1 8

void codes(Row row, uint i, out uvec4 q, out vec2 scale) {
  const uint b = i / 8;
  const uint j = i % 8;
  const uint first = word_at(row, 1, 2 * b);
  const uint lows = word_at(row, 1, 2 * b + 1);
  const uint low = (lows >> (4 * j)) & 15;
  const uint high = (first >> (16 + 2 * j)) & 3;
  scale = vec2(half_of(first & 0xffffu) * float(int(low | (high << 4)) - 32));
  q = words_at(row, 0, i);
}
#include "backends/vulkan/glsl/from_codes.glsl"
