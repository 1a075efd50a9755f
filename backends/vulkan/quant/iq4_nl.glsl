// IQ4_NL: engine/quant/iq4_nl.h.
#include "backends/vulkan/glsl/levels.glsl"
#define CODEBOOK iq4_level
#define BLOCK 32
#define PLANE0 16
#undef PLANE1
#define PLANE1 2
#define SIGNED
#define SINGLE

void decode(Row row, uint i, out float v[32]) {
  const float d = half_at(row, 1, i);
  const uvec4 q = words_at(row, 0, i);
  [[unroll]] for (uint j = 0; j < 16; ++j) {
    const uint b = byte_of(q, j);
    v[j] = d * codebook(b & 15);
    v[j + 16] = d * codebook(b >> 4);
  }
}

#ifdef INTEGER
// As glsl/from_levels.glsl has them.
void levels(Row row, uint i, out uint q[8], out vec2 scale, out vec2 least) {
  scale = vec2(half_at(row, 1, i));
  least = vec2(0);
  put_four_bits(words_at(row, 0, i), q);
  [[unroll]] for (uint w = 0; w < 8; ++w) {
    uint word = 0;
    [[unroll]] for (uint t = 0; t < 4; ++t) {
      word |= codebook_byte((q[w] >> (8 * t)) & 15) << (8 * t);
    }
    q[w] = word;
  }
}
#endif
