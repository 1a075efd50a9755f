// IQ4_NL: engine/quant/iq4_nl.h.
#include "backends/vulkan/glsl/levels.glsl"
#define CODEBOOK iq4_level
#define BLOCK 32
#define PLANE0 16
#undef PLANE1
#define PLANE1 2
#define SIGNED
#define SINGLE

void codes(Row row, uint i, out uvec4 q, out vec2 scale) {
  scale = vec2(half_at(row, 1, i));
  q = words_at(row, 0, i);
}
#include "backends/vulkan/glsl/from_codes.glsl"

#ifdef INTEGER
// As glsl/from_levels.glsl has them.
void levels(Row row, uint i, out uint q[8], out vec2 scale, out vec2 least) {
  uvec4 four_bits;
  codes(row, i, four_bits, scale);
  least = vec2(0);
  [[unroll]] for (uint w = 0; w < 8; ++w) {
    uint word = 0;
    [[unroll]] for (uint t = 0; t < 4; ++t) {
      word |= codebook_byte(code_of(four_bits[w % 4], 4 * w + t)) << (8 * t);
    }
    q[w] = word;
  }
}
#endif
